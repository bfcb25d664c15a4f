#!/bin/sh
# redis-lock SOCKET NAME COMMAND...: what people write who lock by redis: a key that expires, and is deleted afterwards.
[ "$(redis-cli -s "$1" SET "$2" "$$" NX PX 300000)" = OK ] || exit 75
redis=$1 name=$2
shift 2
"$@"
code=$?
redis-cli -s "$redis" DEL "$name" >/dev/null
exit "$code"
