"""The validation without Ansible: parser, search, judge, stages, report and hardware catalogue."""
