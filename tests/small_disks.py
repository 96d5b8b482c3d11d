"""Disks that are small, and full."""

import subprocess
from contextlib import contextmanager, suppress

import pytest


@pytest.fixture
def small_disk(tmp_path):
    """Makes a disk of so many kB, where this user may mount one."""
    place = tmp_path / "disk"

    def mount(kilobytes):
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(place)]
        try:
            mounted = subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            mounted = False
        if not mounted:
            pytest.skip("this user may not mount a small disk")
        return place

    yield mount
    if place.is_mount():
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def filled(disk):
    """While no byte more fits on a disk."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(512)):
            pass
    yield
    filler.unlink()
