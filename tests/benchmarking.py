"""What tests of benchmarks share."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


def ends_with(module, code):
    if code == 0:
        module.main()
    else:
        with pytest.raises(SystemExit) as end:
            module.main()
        assert end.value.code == code
