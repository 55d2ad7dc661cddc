# Sourced by the other scripts: finds Pythons, builds virtual environments, installs the wheel.
# Everything here is idempotent; a stamp inside the environment says what it holds.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# find_python 3.11 -> prints a working interpreter of exactly that version, or fails.
find_python() {
    local want=$1 candidate
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$want"*/bin/python "python$want" python3; do
        if is_python "$candidate" "$want"; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

is_python() {
    "$1" -c "import sys, ensurepip, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" 2>/dev/null
}

# find_any_python -> 3.11 if there is one, else the first newer one.
find_any_python() {
    local version
    for version in 3.11 3.12 3.13; do
        find_python "$version" && return 0
    done
    echo "jitcap needs Python 3.11 or newer; none was found in pyenv or on PATH" >&2
    return 1
}

# sync_env DIR PYTHON NAME REQUIREMENTS... : make DIR if missing, install the requirements when
# pyproject.toml changed since the last time, and our own wheel when a source file changed.
# NAME tells apart the sets of requirements that one environment may hold.
sync_env() {
    local dir=$1 python=$2 name=$3 stamp package
    shift 3
    [ -x "$dir/bin/python" ] || "$python" -m venv "$dir"
    stamp=$(sha256sum "$ROOT/pyproject.toml" | cut -d' ' -f1)
    if [ "$(cat "$dir/.stamp-$name" 2>/dev/null)" != "$stamp" ]; then
        echo "installing into ${dir#"$ROOT"/}: $*"
        "$dir/bin/python" -m pip install -qq --no-compile "setuptools>=77" "$@" # compiled where they are imported
        echo "$stamp" >"$dir/.stamp-$name"
    fi
    package=$(source_hash)
    if [ "$(cat "$dir/.stamp-package" 2>/dev/null)" != "$package" ]; then
        install_wheel "$dir"
        echo "$package" >"$dir/.stamp-package"
    fi
}

source_hash() {
    (cd "$ROOT" && find eager codegen jitcap pyproject.toml -type f ! -name '*.pyc' -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}

# A wheel, not an editable install: what is tested is what a user gets, data files included.
# From a copy: setuptools leaves build/ behind, where a deleted module would live on.
install_wheel() {
    local copy
    copy=$(mktemp -d)
    (cd "$ROOT" && cp -r eager codegen jitcap pyproject.toml README.md LICENSE "$copy")
    "$1/bin/python" -m pip install -qq --no-deps --no-build-isolation --force-reinstall "$copy"
    rm -rf "$copy"
}

# requirements KIND... -> the dependency lists of pyproject.toml, one per line ("core" or an extra).
requirements() {
    "$1" - "$ROOT/pyproject.toml" "${@:2}" <<'PYTHON'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
for kind in sys.argv[2:]:
    rows = project["dependencies"] if kind == "core" else project["optional-dependencies"][kind]
    print("\n".join(rows))
PYTHON
}

# scratch -> a new folder for the files of a run: in memory where there is room and code may run, since
# a disk takes tens of milliseconds for those of one kernel.
scratch() {
    local dir free
    free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    if [ "${free:-0}" -gt 4000000 ] && dir=$(mktemp -d /dev/shm/jitcap-test-XXXXXX 2>/dev/null); then
        if cp "$(type -P true)" "$dir/" && "$dir/true"; then
            echo "$dir"
            return
        fi
        rm -rf "$dir"
    fi 2>/dev/null
    mktemp -d -t jitcap-test-XXXXXX
}
