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
	Fleet string // tests/fleet, with crash points
}

// Build makes the binaries in a directory, without the race detector: the detector sees one process, and the tests of the packages
// run the same code under it (decision 70). Here it would only make each process four times as slow.
func Build(dir string) (Binaries, error) {
	b := Binaries{NATS: filepath.Join(dir, "natsd"), Fleet: filepath.Join(dir, "fleet")}
	if err := GoBuild("-o", b.NATS, "./tests/stack/natsd"); err != nil {
		return Binaries{}, err
	}
	if err := GoBuild("-tags", "failpoint", "-o", b.Fleet, "./tests/fleet"); err != nil {
		return Binaries{}, err
	}
	return b, nil
}

// GoBuild runs go build in the module's root, which is two above a test's own directory. The binaries have no tables for debuggers,
// which take a third of the linker's time.
func GoBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-s -w"}, args...)...)
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %v: %w", args, err)
	}
	return nil
}
