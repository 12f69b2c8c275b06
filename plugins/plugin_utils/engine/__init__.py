"""The validation engine, independent of Ansible: parser, search, judge, stages, report and hardware catalogue."""
