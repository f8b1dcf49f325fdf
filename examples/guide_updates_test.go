package examples

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/updates.md and docs/guide/operations.md.

// Decision is the input of an update.
type Decision struct {
	By string `json:"by"`
	OK bool   `json:"ok"`
}

var (
	Outlay    = pawl.NewOrchestration[int, string]("outlay")
	Approve   = pawl.NewUpdate[Decision, int]("approve") // answered with the number of approvals that are missing
	Missing   = pawl.NewQuery[pawl.None, int]("missing")
	ErrNoName = pawl.NewError("outlay.no-name")
	ErrTwice  = pawl.NewError("outlay.approved-twice")
)

func outlay(ctx *pawl.Context, approvals int) (string, error) {
	var by []string
	if err := Missing.Handle(ctx, func(pawl.None) (int, error) { return approvals - len(by), nil }); err != nil {
		return "", err
	}
	if err := Approve.Validate(ctx, func(d Decision) error {
		if d.By == "" {
			return ErrNoName
		}
		return nil
	}); err != nil {
		return "", err
	}
	for len(by) < approvals {
		request, err := Approve.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		if len(by) > 0 && by[0] == request.Input.By {
			err = request.Reject(ctx, ErrTwice)
		} else {
			by = append(by, request.Input.By)
			err = request.Answer(ctx, approvals-len(by))
		}
		if err != nil {
			return "", err
		}
	}
	return by[0] + " and " + by[1], nil
}

func approveOutlay(ctx context.Context, c *client.Client, id, requestID string, d Decision) (missing int, _ error) {
	missing, err := client.Update(ctx, c, Approve, id, d, client.UpdateID(requestID), client.Deadline(time.Minute))
	if errors.Is(err, pawl.ErrUpdateEnded) {
		return 0, nil // it had all approvals before
	}
	return missing, err
}

// reopenAndApprove replaces an outlay that has failed or was cancelled, and approves the current one.
func reopenAndApprove(ctx context.Context, c *client.Client, id string, approvals int, requestID string, d Decision) (missing int, _ error) {
	run, err := client.Start(ctx, c, Outlay, id, approvals, client.AfterFailure, client.MessageID(requestID))
	if err != nil {
		return 0, err
	}
	if err := run.WaitStarted(ctx); err != nil && !errors.Is(err, client.ErrIDTaken) { // taken: it has not failed
		return 0, err
	}
	return client.Update(ctx, c, Approve, id, d, client.UpdateID(requestID))
}

func missingApprovals(ctx context.Context, c *client.Client, id string) (int, error) {
	got, err := client.Query(ctx, c, Missing, id, pawl.None{})
	return got.Value, err
}

func hold(ctx context.Context, c *client.Client, id string) error {
	if _, err := c.Pause(ctx, id, client.Stop(), client.Reason("the bank is down")); err != nil {
		return err
	}
	_, err := c.Resume(ctx, id)
	return err
}

// duringMaintenance stops the admission of calls of an activity, or starts of an orchestration, while work runs.
func duringMaintenance(ctx context.Context, c *client.Client, action string, work func(context.Context) error) (err error) {
	if err := c.PauseAction(ctx, action, client.Reason("maintenance")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.ResumeAction(context.WithoutCancel(ctx), action)) }()
	return work(ctx)
}

// adopt imports an exported instance and continues it if it had not ended.
func adopt(ctx context.Context, c *client.Client, id string, export []byte) (client.Status, error) {
	got, err := c.Import(ctx, id, export, client.Continue(), client.Reason("moved from the old region"))
	return got.Status, err
}

// removeRefused removes and returns the records of refused inputs.
func removeRefused(ctx context.Context, c *client.Client) (notes []client.Refused, _ error) {
	for note, err := range c.Refused(ctx) {
		if err != nil {
			return notes, err
		}
		notes = append(notes, note)
	}
	for _, note := range notes {
		if err := c.DropRefused(ctx, note.Instance); err != nil && !errors.Is(err, client.ErrNotFound) {
			return notes, err
		}
	}
	return notes, nil
}

func TestGuideOutlayIsDecidedExportedAndImported(t *testing.T) {
	t.Parallel()
	c, ctx := integration.Start(t, Outlay.Do(outlay)).Client, t.Context()
	run, err := client.Start(ctx, c, Outlay, "e-1", 2)
	if err = errors.Join(err, run.WaitStarted(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := hold(ctx, c, "e-1"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		id, by  string
		missing int
		err     error
	}{{"1", "", 0, ErrNoName}, {"2", "ada", 1, nil}, {"2", "ada", 1, nil}, {"3", "ada", 0, ErrTwice}, {"4", "bob", 0, nil}, {"5", "eve", 0, nil}} {
		missing, err := approveOutlay(ctx, c, "e-1", x.id, Decision{By: x.by, OK: true})
		if missing != x.missing || !errors.Is(err, x.err) || x.err == nil && err != nil {
			t.Errorf("update %s: %d, %v", x.id, missing, err)
		}
	}
	if got, err := run.Result(ctx); got != "ada and bob" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	poll.Until(t, time.Minute, "the query sees the end", func() bool {
		n, err := missingApprovals(ctx, c, "e-1")
		return n == 0 && err == nil
	})
	exported, err := api.ExportInstance(ctx, c, "e-1")
	b, bad := json.Marshal(exported)
	if err := errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	if status, err := adopt(ctx, c, "e-2", b); status != client.Completed || err != nil {
		t.Errorf("the import: %s, %v", status, err)
	}
	if run, err = client.Start(ctx, c, Outlay, "e-3", 2); err == nil {
		_, err = c.Terminate(ctx, "e-3")
	}
	if err = errors.Join(err, run.WaitStarted(ctx)); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		id, by  string
		missing int
	}{{"1", "ada", 1}, {"1", "ada", 1}, {"2", "bob", 0}} {
		if missing, err := reopenAndApprove(ctx, c, "e-3", 2, x.id, Decision{By: x.by}); missing != x.missing || err != nil {
			t.Errorf("request %s: %d, %v", x.id, missing, err)
		}
	}
	if notes, err := removeRefused(ctx, c); len(notes) != 0 || err != nil {
		t.Errorf("%v, %v", notes, err)
	}
}

func TestGuideOperatorsPauseAnAction(t *testing.T) {
	t.Parallel()
	c, ctx := integration.Start(t, Outlay.Do(outlay)).Client, t.Context()
	work := func(ctx context.Context) error {
		all, err := c.Policies(ctx)
		if len(all) != 1 || !all[0].Policy.Paused {
			t.Errorf("%+v during the maintenance", all)
		}
		return errors.Join(err, ErrTwice)
	}
	if err := duringMaintenance(ctx, c, Outlay.Name(), work); !errors.Is(err, ErrTwice) {
		t.Error(err)
	}
	if all, err := c.Policies(ctx); len(all) != 0 || err != nil {
		t.Errorf("%+v is left, %v", all, err)
	}
}

func TestGuideUpdatesIsCompiled(t *testing.T) {
	code := doctest.Read(t, "guide_updates_test.go")
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/updates.md"), 3, code)
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/operations.md"), 4, code)
}
