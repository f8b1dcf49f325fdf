//go:build unix

package exec_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/exec"
)

func ExampleCommand() {
	cmd := exec.Command("tr", "a-z", "A-Z")
	cmd.Stdin = strings.NewReader("hello")
	out, err := cmd.Run(context.Background()) // in an activity, pass its context
	fmt.Println(out.Stdout, err)
	// Output: HELLO <nil>
}

func ExampleExitErrorOf() {
	_, err := exec.Command("sh", "-c", "echo disk full >&2; exit 3").Run(context.Background())
	e := exec.ExitErrorOf(err) // also works for the error of a call of the activity
	fmt.Println(e.ExitCode, e)
	// Output: 3 sh: exit code 3: disk full
}
