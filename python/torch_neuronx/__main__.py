# SPDX-License-Identifier: Apache-2.0
import sys

from torch_neuronx.cli import main

sys.exit(main())
