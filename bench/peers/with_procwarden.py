"""procwarden as a wrapper: `with_procwarden.py GRACE CMD...`"""

import sys

from procwarden import PipelineManager

with PipelineManager(graceful_timeout=float(sys.argv[1])) as manager:
    done = manager.run_command(sys.argv[2:], shell=False, check=False)
sys.exit(getattr(done, "returncode", done) or 0)
