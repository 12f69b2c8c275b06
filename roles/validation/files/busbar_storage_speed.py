# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures with fio how fast this node writes to and reads from a shared tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from busbar_storage_rank import DATA, LONGEST_ERROR, NODE_BYTES, Rank, words

FSYNC_S = 300


class Speed(Rank):
    """A rank that measures the speed of the tree."""

    def speed_write(self) -> None:
        """Measure writing, unless the tree lacks space for all nodes."""
        try:
            if not self.room(self.ranks * (self.chosen.size + NODE_BYTES)):
                self.say("speed-write", rate=None, error="no room")
                return
            self.fio("write", self.chosen.size)
        except (OSError, ValueError) as exc:
            self.say("speed-write", rate=None, error=words(exc))

    def speed_read(self) -> None:
        """Measure reading the written files."""
        try:
            written = self.file("fio").stat().st_size // DATA * DATA
            if not written:
                self.say("speed-read", rate=None, error="less than 1 MiB was written")
                return
            self.fio("read", written)
        except FileNotFoundError:
            self.say("speed-read", rate=None, error="nothing was written")
        except (OSError, ValueError) as exc:
            self.say("speed-read", rate=None, error=words(exc))

    def is_direct(self) -> bool:
        """Return whether the tree supports direct I/O."""
        try:
            os.close(os.open(self.file("data"), os.O_RDWR | os.O_DIRECT))
        except OSError:
            return False
        return True

    def fio(self, way: str, size: int) -> None:
        """Run fio and print its rate in bytes per second, including the time of the final sync.

        Raises:
            ValueError: fio did not print JSON.
        """
        program = shutil.which("fio")
        if not program:
            self.say(f"speed-{way}", rate=None, error="fio is not installed")
            return
        mode = "direct" if self.is_direct() else "fsync"
        engine = ["--ioengine=libaio", "--iodepth=16", "--direct=1"] if mode == "direct" else ["--ioengine=psync"]
        command = [program, "--name=busbar", f"--filename={self.file('fio')}", f"--rw={way}", "--bs=1M", *engine]
        command += [f"--size={size}", f"--runtime={self.chosen.seconds}", "--end_fsync=1", "--fallocate=none"]
        # Run fio as one process, so that no children remain when it is killed.
        command += ["--thread", "--output-format=json"]
        limit = self.chosen.seconds + FSYNC_S
        with subprocess.Popen(  # noqa: S603 - arguments of this program, without a shell
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                out, err = child.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                self.say(f"speed-{way}", rate=None, error=f"fio did not finish within {limit} s")
                return
            finally:
                child.kill()
        self.say_rate(way, mode, out, err.strip() or f"fio exited with {child.returncode}", child.returncode)

    def say_rate(self, way: str, mode: str, out: str, error: str, code: int) -> None:
        """Print fio's measurement, or its error.

        Raises:
            ValueError: fio did not print JSON.
        """
        job = json.loads(out[out.index("{") :])["jobs"][0][way] if code == 0 else {}
        rate = int(job.get("bw_bytes") or 0)
        self.say(
            f"speed-{way}",
            rate=rate or None,
            mode=mode,
            bytes=job.get("io_bytes"),
            seconds=job.get("runtime", 0) / 1000,
            error="" if rate else error.splitlines()[-1][:LONGEST_ERROR],
        )
