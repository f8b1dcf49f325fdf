package exec_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	osexec "os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/exec"
	"github.com/pawlrun/pawl/internal/poll"
)

const markName = "PAWL_EXEC_TEST="

// mark is set in the environment of all processes that a test's programs start.
func mark(t *testing.T) string { return markName + t.Name() }

// marked lists the running processes with the test's mark.
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
		env, _ := os.ReadFile("/proc/" + d.Name() + "/environ") // empty for a process that has ended
		if bytes.Contains(append(env, 0), []byte(mark(t)+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// assertNoneLeft fails the test if one of its processes is still running.
func assertNoneLeft(t *testing.T) {
	t.Helper()
	if left := marked(t); len(left) > 0 {
		t.Fatalf("still running: %v", left)
	}
}

func TestGroupIsKilledWhenTheProgramEndsEvenIfItHoldsTheOutput(t *testing.T) {
	cmd := shell(`trap '' TERM; (sleep 1000; true) & sleep 1000 & echo done`)
	cmd.Env = append(os.Environ(), mark(t))
	begun := time.Now()
	out, err := cmd.Run(context.Background())
	if err != nil || out.Stdout != "done\n" || time.Since(begun) > 15*time.Second {
		t.Fatalf("%+v, %v after %s", out, err, time.Since(begun))
	}
	assertNoneLeft(t)
}

func TestRunDoesNotWaitForAProcessThatLeftTheGroupAndHoldsTheOutput(t *testing.T) {
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
	poll.Until(t, time.Minute, "its end", func() bool { return len(marked(t)) == 0 })
}

const (
	workerProcessEnv = "PAWL_TEST_WORKER_PROCESS"
	programsOfWorker = 8
)

// TestWorkerProcess is the worker process that the next test kills.
func TestWorkerProcess(t *testing.T) {
	if os.Getenv(workerProcessEnv) == "" {
		t.Skip("run by TestProgramOutlivesTheThreadsOfItsWorkerButNotItsProcess")
	}
	// Threads end while the programs run, because goroutines that are locked to them end.
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

func TestProgramOutlivesTheThreadsOfItsWorkerButNotItsProcess(t *testing.T) {
	worker := osexec.Command(os.Args[0], "-test.run=^TestWorkerProcess$", "-test.v")
	worker.Env = append(os.Environ(), workerProcessEnv+"=1", mark(t))
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
	poll.Until(t, time.Minute, "the programs", func() bool { return programs() == programsOfWorker })
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "their end", func() bool { return programs() == 0 })
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := exec.Command("true").Run(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
