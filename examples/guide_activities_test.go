package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// The code of docs/guide/activities.md.

var (
	Pay      = pawl.NewOrchestration[Transfer, string]("pay")
	Transact = pawl.NewActivity[Transfer, string]("transact", pawl.Queue("bank"))

	ErrNoFunds = pawl.NewError("no-funds")
)

var (
	payments = pawl.Group("payments", pawl.Rate(100, time.Second)) // each of its activities
	Withdraw = pawl.NewActivity[Transfer, string]("withdraw", payments)
	Postpone = pawl.NewActivity[Transfer, string]("postpone",
		pawl.Concurrency(1), pawl.KeyBy("to"), // one at a time for each account
		pawl.QueueLimit(100), pawl.QueueTimeout(10*time.Minute))
)

type Transfer struct {
	Key   string `json:"key"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// Shortfall is the data attached to an ErrNoFunds.
type Shortfall struct {
	Cents int64 `json:"cents"`
}

func pay(ctx *pawl.Context, t Transfer) (string, error) {
	t.Key = pawl.NewID(ctx) // one key for all attempts
	receipt, err := Transact.Call(ctx, t,
		pawl.Retry{Attempts: 8, Unless: []*pawl.Error{ErrNoFunds}},
		pawl.AttemptTimeout(10*time.Second),
		pawl.Within(10*time.Minute))

	var failure *pawl.Failure
	var short Shortfall
	switch {
	case errors.Is(err, ErrNoFunds) && errors.As(err, &failure) && failure.DecodeData(&short) == nil:
		return fmt.Sprintf("%d cents are missing", short.Cents), nil
	case errors.Is(err, pawl.ErrTimeout):
		return "", fmt.Errorf("the bank may have the transfer %s or not: %w", t.Key, err)
	}
	return receipt, err
}

type bank struct {
	url  string
	http *http.Client
}

func (b *bank) transact(ctx context.Context, t Transfer) (string, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return "", pawl.Permanent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(body))
	if err != nil {
		return "", pawl.Permanent(err)
	}
	req.Header.Set("Idempotency-Key", t.Key)
	resp, err := b.http.Do(req) // ends at once when the activity is cancelled
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusPaymentRequired:
		return "", pawl.WithData(fmt.Errorf("transfer to %s: %w", t.To, ErrNoFunds), Shortfall{Cents: t.Cents})
	case resp.StatusCode >= http.StatusInternalServerError:
		return "", errors.New(resp.Status)
	case resp.StatusCode != http.StatusOK:
		return "", pawl.Permanent(errors.New(resp.Status))
	}
	return string(answer), nil
}

func crunch(ctx context.Context, numbers []int) (int, error) {
	sum := 0
	for i, n := range numbers {
		if i%1000 == 0 && ctx.Err() != nil {
			return 0, context.Cause(ctx) // names the requester and the reason
		}
		sum += n
	}
	return sum, nil
}

func withdraw(ctx *pawl.Context, t Transfer) (string, error) {
	receipt, err := Withdraw.Call(ctx, t, pawl.Retry{}, pawl.KeepSlot())
	if errors.Is(err, pawl.ErrQueueFull) || errors.Is(err, pawl.ErrQueueTimeout) {
		return Postpone.Call(ctx, t) // the bank is overloaded
	}
	return receipt, err
}

func TestGuideWithdrawalIsPostponedWhenTheLimitTimesOut(t *testing.T) {
	due := pawl.NewOrchestration[Transfer, string]("due", pawl.Concurrency(10))
	greet := func(what string) func(context.Context, Transfer) (string, error) {
		return func(context.Context, Transfer) (string, error) { return what, nil }
	}
	for want, steps := range map[string][]pawltest.Step{
		"withdrawn": {pawltest.Fail(errors.New("busy")), pawltest.Succeed()},
		"postponed": {pawltest.Fail(errors.New("busy")), pawltest.Fail(pawl.ErrQueueTimeout)},
	} {
		env := pawltest.New(t, due.Do(withdraw), Withdraw.Do(greet("withdrawn")), Postpone.Do(greet("postponed")))
		env.Script(Withdraw, steps...)
		if got, err := pawltest.Run(env, due, Transfer{To: "Ada"}); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// payAt pays at a bank that returns the given answers, one after the other.
func payAt(t *testing.T, answers ...int) (receipt string, keys []string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(answers[len(keys)-1])
		_, _ = io.WriteString(w, "receipt")
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	env := pawltest.New(t, Pay.Do(pay), Transact.Do((&bank{url: server.URL, http: server.Client()}).transact))
	receipt, err = pawltest.Run(env, Pay, Transfer{To: "Ada", Cents: 990})
	return receipt, keys, err
}

func TestGuideTransferIsRetriedWithOneKey(t *testing.T) {
	receipt, keys, err := payAt(t, 503, 500, 200)
	if receipt != "receipt" || err != nil || len(keys) != 3 || keys[0] == "" || keys[0] != keys[2] {
		t.Errorf("%q, %v, %q", receipt, err, keys)
	}
	if receipt, keys, err = payAt(t, 402); receipt != "990 cents are missing" || err != nil || len(keys) != 1 {
		t.Errorf("%q, %v, %q", receipt, err, keys)
	}
	if _, keys, err = payAt(t, 400); err == nil || !strings.Contains(err.Error(), "400") || len(keys) != 1 {
		t.Errorf("%v, %q", err, keys)
	}
}

func TestGuideTransferTimesOutAfterTenMinutes(t *testing.T) {
	env := pawltest.New(t, Pay.Do(pay))
	env.Script(Transact, pawltest.Never().Times(0))
	if _, err := pawltest.Run(env, Pay, Transfer{}); !errors.Is(err, pawl.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestGuideLongActivityStopsWhenItsContextEnds(t *testing.T) {
	if sum, err := crunch(t.Context(), []int{1, 2}); sum != 3 || err != nil {
		t.Errorf("%d, %v", sum, err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	lost := &cancel.Cancelled{Reason: cancel.LostSelect}
	stop(lost)
	if _, err := crunch(ctx, []int{1}); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}

func TestGuideActivitiesPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/activities.md"), 6, doctest.Read(t, "guide_activities_test.go"))
}
