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
	Fleet string // tests/fleet, with crash points and the race detector
}

// Build makes the binaries in a directory.
func Build(dir string) (Binaries, error) {
	b := Binaries{NATS: filepath.Join(dir, "natsd"), Fleet: filepath.Join(dir, "fleet")}
	if err := GoBuild("-o", b.NATS, "./tests/stack/natsd"); err != nil {
		return Binaries{}, err
	}
	if err := GoBuild("-race", "-tags", "failpoint", "-o", b.Fleet, "./tests/fleet"); err != nil {
		return Binaries{}, err
	}
	return b, nil
}

// GoBuild runs go build in the module's root, which is two above a test's own directory.
func GoBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %v: %w", args, err)
	}
	return nil
}
