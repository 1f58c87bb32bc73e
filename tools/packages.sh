#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the distribution packages that are missing, where permitted; else
# says which and stops. Usage: packages.sh PYTHON build|test|bench...
set -euo pipefail

python=$1
shift
missing=()

header() { # package, header
  [ -e "/usr/include/$2" ] || [ -e "/usr/local/include/$2" ] || missing+=("$1")
}

for group in "$@"; do
  case $group in
    build)
      command -v c++ >/dev/null || missing+=(g++)
      header libfmt-dev fmt/core.h
      header libspdlog-dev spdlog/spdlog.h
      "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        missing+=(python3-venv)
      "$python" -c 'import os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not os.path.exists(header))' || missing+=(python3-dev)
      ;;
    test)
      header libgtest-dev gtest/gtest.h
      ;;
    bench)
      header libbenchmark-dev benchmark/benchmark.h
      ;;
    *) echo "unknown group: $group" >&2; exit 2 ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n)
fi
install=(env DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "${missing[@]}")
if command -v apt-get >/dev/null &&
  "${as_root[@]}" true 2>/dev/null &&
  "${as_root[@]}" apt-get update &&
  "${as_root[@]}" "${install[@]}"; then
  exit 0
fi
echo "These packages (Debian's names) are needed and could not be installed:" >&2
echo "  ${missing[*]}" >&2
exit 1
