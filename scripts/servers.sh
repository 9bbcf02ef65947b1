#!/usr/bin/env bash
# servers.sh FOLDER SUITE[,SUITE] PACKAGE... : unpacks server programs of a Debian suite, with all that they need, into
# FOLDER, where the tests look for them. Installs nothing, needs no root, and leaves apt's own state alone. Ends with 0
# also when the packages cannot be had: it says why, and the tests of those servers do not run.
set -u -o pipefail

folder=$(realpath -m "$1")
suites=${2//,/ }
shift 2

skip() {
  echo "No $* for the tests: $reason."
  rm -rf "$folder"
  exit 0
}

[ -f "$folder/complete" ] && exit 0
reason='there is no apt here'
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || skip "$@"

# The mirror that this machine uses already.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2> /dev/null | grep '/debian/$' | grep -v security | head -n 1)
reason="apt knows no Debian mirror"
[ -n "$mirror" ] || skip "$@"
keys=/usr/share/keyrings/debian-archive-keyring.gpg

rm -rf "$folder"
mkdir -p "$folder"/{lists/partial,cache/archives/partial,root}
: > "$folder/status"
for suite in $suites; do echo "deb [signed-by=$keys] $mirror $suite main"; done > "$folder/sources.list"
apt() {
  timeout 120 apt-get -qq -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Dir::State::status="$folder/status" \
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=1 -o Acquire::http::Timeout=20 "$@"
}

reason="the package lists of $suites could not be read"
apt update || skip "$@"
reason="the packages of $suites could not be fetched"
# Newer suites win where both have a package.
last=${suites##* }
apt -y --no-install-recommends -t "$last" --download-only install "$@" > /dev/null || skip "$@"

for file in "$folder"/cache/archives/*.deb; do
  case $(basename "$file") in
    perl* | systemd* | adduser* | debconf* | dpkg* | passwd* | libperl* | mount* | init-* | util-linux* | tzdata*) ;;
    *) dpkg-deb -x "$file" "$folder/root" ;;
  esac
done
rm -rf "$folder/cache" "$folder/lists"

# Each starts with the C library that came with it.
loader=$(find "$folder/root" -name 'ld-linux-*.so.*' | head -n 1)
libraries=$(find "$folder/root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
for program in redis-server redis-cli redis-sentinel valkey-server valkey-cli valkey-sentinel nats-server; do
  path=$(find "$folder/root/usr" -path "*bin/$program" | head -n 1)
  [ -n "$path" ] || continue
  # The sentinel is the server under another name.
  real=$(readlink -f "$path")
  argv0=$(basename "$path")
  printf '#!/bin/sh\nexec %s --argv0 %s --library-path %s %s "$@"\n' "$loader" "$argv0" "$libraries" "$real" > "$folder/$program"
  chmod +x "$folder/$program"
done
touch "$folder/complete"
echo "Unpacked for the tests: $* of $suites."
