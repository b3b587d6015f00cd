#!/bin/sh
# Installs the servers of package.json into the user's cache, once for each version of that file, and prints the folder.
# Several test packages may call it at once: each installs into a folder of its own, and the first to finish wins.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for tool in node npm; do
	command -v "$tool" >/dev/null 2>&1 || { echo "install.sh: $tool is missing: install Node.js 20.15 or newer (Debian: apt-get install nodejs npm)" >&2; exit 1; }
done

hash=$(cat "$here/package.json" "$here/package-lock.json" | node -e '
	const hash = require("crypto").createHash("sha256");
	process.stdin.on("data", d => hash.update(d)).on("end", () => console.log(hash.digest("hex").slice(0, 16)));')
root=${XDG_CACHE_HOME:-$HOME/.cache}/agenttask-operator
target=$root/npm-$hash

if [ ! -d "$target" ]; then
	mkdir -p "$root"
	work=$(mktemp -d "$root/npm-install.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cp "$here/package.json" "$here/package-lock.json" "$work/"
	# No scripts: nothing that these packages bring needs to run while they are installed.
	npm ci --prefix "$work" --ignore-scripts --omit=dev --no-audit --no-fund --loglevel=error >&2
	# A rename either does all or nothing; it fails when another process was first, which is as good.
	node -e 'try { require("fs").renameSync(process.argv[1], process.argv[2]) } catch (e) { if (!require("fs").existsSync(process.argv[2])) throw e }' "$work" "$target"
fi
echo "$target"
