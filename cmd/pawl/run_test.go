package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
)

func TestRunStartsAJobOfAnActivity(t *testing.T) {
	double := pawl.NewActivity[int, int]("double", pawl.Queue("numbers"))
	nats := harness(t, fleets{activities: []pawl.ActivityBinding{double.Do(func(_ context.Context, n int) (int, error) {
		if n < 0 {
			return 0, fmt.Errorf("%d is negative", n)
		}
		return 2 * n, nil
	})}})
	at := []string{"--nats", nats}
	double21 := append([]string{"run", "double", "job-1", "--queue", "numbers", "--input", "21", "--wait"}, at...)
	for range 2 { // the second start finds the same job
		if got := must(t, double21...); got != "42\n" {
			t.Errorf("%q", got)
		}
	}
	var o api.Outcome
	if err := json.Unmarshal([]byte(must(t, append(double21, "--json")...)), &o); err != nil || string(o.Result) != "42" || o.Instance != "job-1" {
		t.Errorf("%+v, %v", o, err)
	}
	if got := must(t, append([]string{"get", "job-1"}, at...)...); !strings.Contains(got, "pawl.job") {
		t.Errorf("%s", got)
	}
	code, _, errs := command(t, append([]string{"run", "double", "--queue", "numbers", "--input=-1", "--wait"}, at...)...)
	if code != 1 || !strings.Contains(errs, "-1 is negative") {
		t.Errorf("%d: %s", code, errs)
	}
	later := strings.TrimSpace(must(t, append([]string{"run", "double", "--queue", "numbers", "--input", "1", "--after", "10h"}, at...)...))
	must(t, append([]string{"cancel", later, "--reason", "not needed"}, at...)...)
	if code, _, errs = command(t, append([]string{"get", later, "--wait"}, at...)...); code != 1 || !strings.Contains(errs, "not needed") {
		t.Errorf("%d: %s", code, errs)
	}
	for _, wrong := range [][]string{
		{"run"}, {"run", "a b"}, {"run", "double", "a b"}, {"run", "double", "--input", "x"}, {"run", "double", "--attempts", "0"}, {"run", "double", "--after", "-1s"},
		{"run", "double", ""}, {"run", "double", "--within=-1s"},
	} {
		if code, _, errs := command(t, append(wrong, at...)...); code != 2 {
			t.Errorf("%q: code %d, %s", wrong, code, errs)
		}
	}
}
