package pawl_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
)

const markName = "PAWL_COMMAND_TEST="

// mark is in the environment of everything that a test's programs start.
func mark(t *testing.T) string { return markName + t.Name() }

// marked lists the processes that live and carry the test's mark.
func marked(t *testing.T) []int {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile("/proc/" + d.Name() + "/environ") // that of one that has ended is empty
		if bytes.Contains(append(env, 0), []byte(mark(t)+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nobody fails if anything that a test's programs have started still lives.
func nobody(t *testing.T) {
	t.Helper()
	if left := marked(t); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestAProgramThatEndsLeavesNoneOfItsGroupBehindAlsoNotThoseThatHoldItsOutput(t *testing.T) {
	cmd := shell(`trap '' TERM; (sleep 1000; true) & sleep 1000 & echo done`)
	cmd.Env = append(os.Environ(), mark(t))
	begun := time.Now()
	out, err := cmd.Run(context.Background())
	if err != nil || out.Stdout != "done\n" || time.Since(begun) > 15*time.Second {
		t.Fatalf("%+v, %v after %s", out, err, time.Since(begun))
	}
	nobody(t)
}

// Who leaves the group is not ours any more. It is not waited for either.
func TestSomebodyWhoHasLeftTheGroupAndHoldsTheOutputHoldsUpNobody(t *testing.T) {
	cmd := shell(`setsid sleep 1000 & echo done`)
	cmd.Env = append(os.Environ(), mark(t))
	begun := time.Now()
	out, err := cmd.Run(context.Background())
	if err != nil || out.Stdout != "done\n" || time.Since(begun) > 15*time.Second {
		t.Fatalf("%+v, %v after %s", out, err, time.Since(begun))
	}
	for _, pid := range marked(t) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	poll.Until(t, 20*time.Second, "its end", func() bool { return len(marked(t)) == 0 })
}

const (
	actAsWorker      = "PAWL_TEST_ACT_AS_WORKER"
	programsOfWorker = 8
)

// TestActAsWorker is no test but the worker that the next one kills.
func TestActAsWorker(t *testing.T) {
	if os.Getenv(actAsWorker) == "" {
		t.Skip("the worker of another test")
	}
	// Threads end while the programs run: goroutines that are locked to them end.
	begun := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for range programsOfWorker {
			go func() { _, _ = shell(`exec sleep 1000`).Run(context.Background()) }()
		}
		close(begun)
	}()
	<-begun
	for range 100 {
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer close(ended)
		}()
		<-ended
	}
	_, _ = io.WriteString(os.Stdout, "threads have ended\n")
	<-make(chan struct{})
}

func TestAProgramOutlivesTheThreadsOfItsWorkerAndNotTheWorkerItself(t *testing.T) {
	worker := exec.Command(os.Args[0], "-test.run=^TestActAsWorker$", "-test.v")
	worker.Env = append(os.Environ(), actAsWorker+"=1", mark(t))
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "threads have ended"); {
	}
	programs := func() (n int) {
		for _, pid := range marked(t) {
			if cmd, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); bytes.HasPrefix(cmd, []byte("sleep\x00")) {
				n++
			}
		}
		return n
	}
	poll.Until(t, 20*time.Second, "the programs", func() bool { return programs() == programsOfWorker })
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, 20*time.Second, "their end", func() bool { return programs() == 0 })
}

func BenchmarkCommand(b *testing.B) {
	for b.Loop() {
		if _, err := pawl.Command("true").Run(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
