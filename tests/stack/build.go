package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Binaries are the programs that the tests run.
type Binaries struct {
	NATS  string // tests/stack/natsd
	Fleet string // tests/crash/fleet, with crash points and the race detector
}

// Build makes the binaries in a directory. The module's root is two above a test's own directory.
func Build(dir string) (Binaries, error) {
	b := Binaries{NATS: filepath.Join(dir, "natsd"), Fleet: filepath.Join(dir, "fleet")}
	for _, args := range [][]string{
		{"build", "-o", b.NATS, "./tests/stack/natsd"},
		{"build", "-race", "-tags", "failpoint", "-o", b.Fleet, "./tests/crash/fleet"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = filepath.Join("..", "..")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return Binaries{}, fmt.Errorf("go %v: %w", args, err)
		}
	}
	return b, nil
}
