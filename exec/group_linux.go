package exec

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// anyAlive reports whether a group has a member that is not a zombie, because the init process of a container may not reap orphans. If
// /proc cannot be read, it reports true.
func anyAlive(group int) bool {
	dir, err := os.Open("/proc")
	if err != nil {
		return true
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return true
	}
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // ended in the meantime
		}
		if state, g := parseStat(stat); g == group && state != "Z" && state != "X" {
			return true
		}
	}
	return false
}

// parseStat returns the state and the group in /proc/<pid>/stat: "pid (name) state parent group …". The name may contain
// parentheses.
func parseStat(stat []byte) (state string, group int) {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 3 {
		return "", 0
	}
	group, _ = strconv.Atoi(string(f[2]))
	return string(f[0]), group
}
