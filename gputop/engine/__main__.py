"""python -m gputop.engine: started by a screen, in a session of its own."""

import sys

from gputop.engine.main import main

sys.exit(main())
