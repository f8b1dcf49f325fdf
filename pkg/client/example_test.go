package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Handles of an application; its orchestrators, workers and clients import them from one package.
var (
	fulfil   = pawl.NewOrchestration[string, string]("fulfil")
	approved = pawl.NewEvent[bool]("approved")
	progress = pawl.NewStatus[int]() // in per cent
	reserve  = pawl.NewUpdate[int, int]("reserve")
	onHand   = pawl.NewQuery[pawl.None, int]("on-hand")
	resize   = pawl.NewActivity[string, string]("resize")
)

var (
	ctx = context.Background()
	c   *client.Client // see ExampleNew
)

func ExampleNew() {
	nc, err := queue.Dial("nats://127.0.0.1:4222")
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(context.Background(), nc, client.Options{By: "shop"})
	if err != nil {
		log.Print(err)
		return
	}
	defer c.Close()
}

// Starting the same id again is harmless: the returned Instance refers to the existing instance.
func ExampleStart() {
	run, err := client.Start(ctx, c, fulfil, "order-17", "3 apples")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.ID())
}

func ExampleAttach() {
	receipt, err := client.Attach(c, fulfil, "order-17").Result(ctx)
	if errors.Is(err, client.ErrNotFound) {
		log.Fatal("order-17 was never started, or is purged")
	}
	fmt.Println(receipt, err)
}

func ExampleInstance_Result() {
	run, err := client.Start(ctx, c, fulfil, "order-17", "3 apples")
	if err != nil {
		log.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute) // ends the wait, not the instance
	defer cancel()
	receipt, err := run.Result(limited)
	var failure *pawl.Failure
	switch {
	case errors.As(err, &failure):
		fmt.Println("failed:", failure.Message)
	case err != nil:
		fmt.Println("still running:", err)
	default:
		fmt.Println(receipt)
	}
}

// A repeat with the same message id within an hour is not delivered again.
func ExampleSend() {
	if err := client.Send(ctx, c, approved, "order-17", true, client.MessageID("approval-17")); err != nil {
		log.Fatal(err)
	}
}

func ExampleSendOrStart() {
	run, err := client.SendOrStart(ctx, c, fulfil, "order-17", "3 apples", approved, true)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.ID())
}

func ExampleClient_Cancel() {
	if err := c.Cancel(ctx, "order-17", "the customer has changed the order"); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Describe() {
	d, err := c.Describe(ctx, "order-17")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Status, d.Started, d.Stalled)
	for _, a := range d.Activities {
		fmt.Println(a.Name, "on", a.Worker)
	}
}

func ExampleClient_List() {
	for d, err := range c.List(ctx, client.ListOptions{Where: `orchestration = fulfil and started > -24h`, Status: client.Failed, Limit: 20}) {
		if err != nil {
			log.Fatal(err) // the list is incomplete
		}
		fmt.Println(d.Instance, d.Ended)
	}
}

func ExampleClient_History() {
	for e, err := range c.History(ctx, "order-17", 0) { // of the latest execution
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.ID, e.At, e.Type)
	}
}

func ExampleClient_Purge() {
	err := c.Purge(ctx, "order-17")
	if errors.Is(err, client.ErrRunning) {
		err = c.Purge(ctx, "order-17", client.Force(), client.Reason("test data"))
	}
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		log.Fatal(err)
	}
}

// Missed is called when all orchestrators have received the announcement of the watcher, and whenever a displayed list must be read
// again.
func ExampleClient_Watch() {
	refresh := make(chan struct{}, 1)
	notify := func() {
		select {
		case refresh <- struct{}{}:
		default: // a refresh is due already
		}
	}
	stop, err := c.Watch(client.Watcher{
		Changed: func(client.Change) { notify() },
		Missed:  notify,
		Ended:   func() {},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	<-refresh
}

func ExampleCustomStatus() {
	at, err := client.CustomStatus(ctx, c, progress, "order-17")
	if errors.Is(err, client.ErrNoStatus) {
		return
	}
	fmt.Println(at.Value, at.Version, err)
}

func ExampleNextStatus() {
	first, err := client.NextStatus(ctx, c, progress, "order-17", 0)
	if err != nil {
		log.Fatal(err)
	}
	next, err := client.NextStatus(ctx, c, progress, "order-17", first.Version) // waits
	fmt.Println(next.Value, err)
}

func ExampleWatchStatus() {
	for at, err := range client.WatchStatus(ctx, c, progress, "order-17") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d%%\n", at.Value)
	}
}

// At most 5 concurrent payments and 100 per second for each customer, in the whole fleet.
func ExampleClient_SetPolicy() {
	err := c.SetPolicy(ctx, "action:charge", client.Policy{
		Concurrency: 5, Rate: 100, RateWindow: time.Second, Key: "customer.id",
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The answer is that of the first attempt, however often the update is sent with this id.
func ExampleUpdate() {
	left, err := client.Update(ctx, c, reserve, "stock-7", 3, client.UpdateID("order-17"), client.Deadline(time.Minute))
	switch {
	case client.Rejected(err):
		fmt.Println("not reserved:", err)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(left, "left")
	}
}

func ExampleQuery() {
	answer, err := client.Query(ctx, c, onHand, "stock-7", pawl.None{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Value)
}

// A job is an activity without an orchestration.
func ExampleRun() {
	job, err := client.Run(ctx, c, resize, "photo-17", "17.jpg", client.Retry(pawl.Retry{Attempts: 5}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Result(ctx))
}

func ExampleNewScheduleStart() {
	start, err := client.NewScheduleStart(fulfil, "standing order")
	if err != nil {
		log.Fatal(err)
	}
	err = c.CreateSchedule(ctx, "weekly", client.Schedule{
		Times: client.Times{Cron: []string{"0 6 * * mon"}, Zone: "Europe/Zurich"}, Start: start, Overlap: client.OverlapBufferOne,
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Count() {
	n, err := c.Count(ctx, client.CountOptions{Where: `started > -24h`, By: "status"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n.Count, "started,", n.Status[client.Failed], "of them failed")
}

// Another process can wait for the result of a job by its id.
func ExampleAttachJob() {
	fmt.Println(client.AttachJob(c, resize, "photo-17").Result(ctx))
}

func ExampleNewJob() {
	job, err := client.NewJob(resize, "all.jpg", client.Retry(pawl.Retry{Attempts: 5}), client.AttemptTimeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	if err := c.CreateSchedule(ctx, "nightly", client.Schedule{Times: client.Times{Cron: []string{"0 2 * * *"}}, Run: job}); err != nil {
		log.Fatal(err)
	}
}

// The instance starts tomorrow, and fails if it has not ended a week later. WaitStarted returns an error if the id is in use.
func ExampleInstance_WaitStarted() {
	run, err := client.Start(ctx, c, fulfil, "order-18", "2 pears", client.After(24*time.Hour), client.RunTimeout(7*24*time.Hour), client.Reject)
	if err != nil {
		log.Fatal(err)
	}
	if err := run.WaitStarted(ctx); errors.Is(err, client.ErrIDTaken) {
		fmt.Println("there is an order-18 already")
	}
}

// The update and the start are one message: both are accepted, or neither.
func ExampleUpdateWithStart() {
	left, err := client.UpdateWithStart(ctx, c, fulfil, "stock-7", "apples", reserve, 3, client.UpdateID("order-19"))
	fmt.Println(left, err)
}

func ExampleClient_Stalled() {
	for s, err := range c.Stalled(ctx) {
		if err != nil {
			log.Fatal(err) // some partitions did not answer
		}
		fmt.Println(s.Instance, s.Stalled)
	}
}

func ExampleClient_StartBatch() {
	batch, err := c.StartBatch(ctx, "retry-declined", client.Batch{Verb: client.BatchRetry, Where: `code = declined and ended > -2h`, Rate: 200})
	if err != nil {
		log.Fatal(err)
	}
	state, err := batch.Result(ctx)
	fmt.Println(state.Sent, err)
}
