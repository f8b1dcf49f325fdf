package pawl

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// anyAlive tells members of a group that live from those that have ended and that nobody
// buries, as in a container whose init does not. If /proc does not say, they live.
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
			continue // it has ended meanwhile
		}
		if state, of := memberOf(stat); of == group && state != "Z" && state != "X" {
			return true
		}
	}
	return false
}

// memberOf reads the state and the group from /proc/<pid>/stat: "pid (name) state parent group …".
// The name may hold anything, parentheses too.
func memberOf(stat []byte) (state string, group int) {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 3 {
		return "", 0
	}
	group, _ = strconv.Atoi(string(f[2]))
	return string(f[0]), group
}
