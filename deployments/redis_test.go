package deployments_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// redisIn runs scripts/redis-start.sh in a directory, as the compose files do, executes commands, and returns the answers.
func redisIn(t *testing.T, dir, commands string) string {
	t.Helper()
	script, err := filepath.Abs("../scripts/redis-start.sh")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	// Without "always", Redis may answer before it writes to the file, and the kill would lose the write.
	cmd := exec.Command("/bin/sh", script, "--port", "0", "--unixsocket", socket, "--appendonly", "yes", "--appendfsync", "always", //nolint:noctx // it is killed below
		"--save", "")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := new(strings.Builder)
	for buf := make([]byte, 4096); !strings.Contains(log.String(), "ready to accept connections at") && err == nil; {
		var n int
		n, err = out.Read(buf)
		log.Write(buf[:n])
	}
	cli := exec.CommandContext(t.Context(), "redis-cli", "-s", socket)
	cli.Stdin = strings.NewReader(commands)
	answers, _ := cli.Output() // there are none if the server refused its AOF
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	rest, _ := io.ReadAll(out)
	log.Write(rest)
	_ = cmd.Wait()
	return log.String() + string(answers)
}

func TestRedisStartRemovesATransactionThatACrashCut(t *testing.T) {
	dir := t.TempDir()
	redisIn(t, dir, "INCR n\nINCR n\n")
	part := filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof")
	edit(t, part, "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*2\r\n$4\r\nIN")
	for restart, want := range []string{"3", "4"} {
		if got := redisIn(t, dir, "INCR n\n"); !strings.HasSuffix(got, "\n"+want+"\n") {
			t.Errorf("restart %d answered %s; want %s", restart, got, want)
		}
	}
}

func TestRedisStartLeavesADamagedFileToTheOperator(t *testing.T) {
	dir := t.TempDir()
	redisIn(t, dir, "INCR n\n")
	part := filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof")
	want := edit(t, part, "no command\r\n")
	log := redisIn(t, dir, "INCR n\n")
	if got, err := os.ReadFile(part); err != nil || string(got) != want || !strings.Contains(log, "is damaged") {
		t.Errorf("the file has %d bytes, want %d, %v:\n%s", len(got), len(want), err, log)
	}
}

// edit appends text to a file and returns the content.
func edit(t *testing.T, file, text string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		b = append(b, text...)
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
