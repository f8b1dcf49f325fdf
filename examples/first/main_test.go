package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

// asProgram makes the test binary behave as the program itself.
const asProgram = "PAWL_TEST_FIRST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestGuideFirstPageShowsThisProgram(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../../docs/guide/first-orchestration.md"), 5, doctest.Read(t, "main.go", "main_test.go"))
}

func TestGuestThatAnswersIsQuoted(t *testing.T) {
	env := pawltest.New(t, Invite.Do(invite), Write.Do(write))
	pawltest.Send(env.At(48*time.Hour), Reply, "gladly")
	if got, err := pawltest.Run(env, Invite, Guest{Name: "Ada"}); got != "Ada: gladly" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGuestHasAWeekToAnswer(t *testing.T) {
	env := pawltest.New(t, Invite.Do(invite), Write.Do(write))
	got, err := pawltest.Run(env, Invite, Guest{Name: "Bob"})
	if got != "Bob has not answered" || err != nil || env.Now().Day() != 8 {
		t.Errorf("%q, %v, at %s", got, err, env.Now())
	}
}

// program starts the program against the stack. The function that it returns waits for its end.
func program(t *testing.T, stack *embedded.Stack) (signal func(os.Signal) error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1", "PAWL_NATS="+stack.NATSURL(), "PAWL_REDIS="+stack.RedisURL())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	signal = func(s os.Signal) error {
		ended = true
		_ = cmd.Process.Signal(s)
		return cmd.Wait()
	}
	t.Cleanup(func() {
		if !ended {
			_ = signal(os.Kill)
		}
	})
	return signal
}

func TestProgramKilledWhileItWaitsContinuesAfterItsRestart(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	stack, err := embedded.Start(ctx, embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stack.Stop() }()
	signal := program(t, stack)
	nc, err := queue.Dial(stack.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var c *client.Client
	poll.Until(t, time.Minute, "the program makes its namespace", func() bool {
		c, err = client.New(ctx, nc, client.Options{Namespace: "first"})
		return err == nil
	})
	defer c.Close()
	run, err := client.Start(ctx, c, Invite, "ada", Guest{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "the invitation is written", func() bool {
		d, err := c.Describe(ctx, "ada")
		return err == nil && d.Timers == 1
	})
	if err := signal(os.Kill); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
	signal = program(t, stack)
	if err := client.Send(ctx, c, Reply, "ada", "gladly"); err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(ctx); got != "Ada: gladly" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := signal(syscall.SIGTERM); err != nil {
		t.Errorf("%v", err)
	}
}
