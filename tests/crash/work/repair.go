package work

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/pawlrun/pawl"
)

// Repair fails until an operator retries it. By then its child and its steps have results.
var (
	Repair  = pawl.NewOrchestration[int, int]("repair")
	Fragile = pawl.NewActivity[int, int]("fragile")
)

// RewindEvent is the history event that the tests rewind Repair to: the completion of its first step.
const RewindEvent = 3

var errBroken = errors.New("broken until the next run")

func repair(ctx *pawl.Context, n int) (int, error) {
	first, err := Step.Call(ctx, n)
	if err != nil {
		return 0, err
	}
	child, second := CallStep.Start(ctx, first), Step.Start(ctx, first)
	fragile := Fragile.Start(ctx, n)
	a, err := child.Get(ctx)
	if err != nil {
		return 0, err
	}
	b, err := second.Get(ctx)
	if err != nil {
		return 0, err
	}
	c, err := fragile.Get(ctx)
	return first + a + b + c, err
}

// RepairResult is the result of Repair for n.
func RepairResult(n int) int { return (n + 1) + 2*(n+2) + n }

// fragile fails on its first run for an instance, which it finds in the ledger.
func (l Ledger) fragile(ctx context.Context, n int) (int, error) {
	ran, err := l.has("fragile", pawl.Info(ctx).Instance)
	if err != nil {
		return 0, err
	}
	if err := l.write(ctx, "fragile"); err != nil {
		return 0, err
	}
	if !ran {
		return 0, pawl.Permanent(errBroken)
	}
	return n, nil
}

// has reports whether the ledger has a line of an instance.
func (l Ledger) has(what, instance string) (bool, error) {
	f, err := os.Open(string(l))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), what+" "+instance+" ") {
			return true, nil
		}
	}
	return false, lines.Err()
}
