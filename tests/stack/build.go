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

// Build builds the binaries in a directory, without the race detector. It observes a single process, and the tests of the
// packages run the same code under it (decision 70); here it would only make each process four times slower.
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

// GoBuild runs go build in the root of the module, which is two directories above the directory of a test. The binaries have
// no debugging tables, which take a third of the time of the linker.
func GoBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-s -w"}, args...)...)
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %v: %w", args, err)
	}
	return nil
}
