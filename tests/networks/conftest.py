"""Makes the battery of modules and its oracle importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
