# Reads one line per thing that must not outlive the program that writes to us, and lives until that program closes
# our standard input, be it by ending well, by a panic or by kill -9. Then what is still on the list goes.
# A running program stands on the list as SIGNAL:PID, with the signal that it takes for a farewell.
trap '' HUP INT QUIT TERM
running='' made=''
without() { for one in $1; do [ "$one" = "$2" ] || printf '%s ' "$one"; done; }
while read -r what which; do
    case $what in
    started) running="$running $which" ;;
    ended) running=$(without "$running" "$which") ;;
    made) made="$which" ;;
    removed) made='' ;;
    esac
done
any() { for one in $running; do kill -0 "${one#*:}" 2>/dev/null && return 0; done; return 1; }
for one in $running; do kill -s "${one%%:*}" "${one#*:}" 2>/dev/null; done
left=50
while [ $left -gt 0 ] && any; do
    sleep 0.1
    left=$((left - 1))
done
for one in $running; do kill -s KILL "${one#*:}" 2>/dev/null; done
[ -z "$made" ] || rm -rf -- "$made"
