# SPDX-License-Identifier: Apache-2.0
import sys

from torch_neuronx_cli import main

sys.exit(main())
