package term

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal. The reader receives the output that is written to it.
func terminal(t *testing.T) (terminal, reader *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	n, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal, reader
}

func TestTableWithoutRowsIsASentenceOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	w, r := terminal(t)
	lines := bufio.NewReader(r)
	tab := &Table{Header: []string{"INSTANCE"}}
	for _, want := range []string{"There is none.\r\n", "INSTANCE\r\n"} {
		if err := tab.WriteOr(w, "There is none."); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); line != want || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		tab.Add("order-1")
	}
}
