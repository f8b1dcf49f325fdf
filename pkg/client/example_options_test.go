package client_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

var (
	tenant = pawl.NewAttribute[string]("tenant")
	due    = pawl.NewAttribute[time.Time]("due")
	tick   = pawl.NewEvent[string]("tick")
)

func ExampleWith() {
	_, err := client.Start(ctx, c, fulfil, "order-17", "3 apples",
		client.With(tenant.Is("acme")), client.With(due.Is(time.Now().Add(72*time.Hour)))) // found by `tenant = acme and due < +3d`
	if err != nil {
		log.Fatal(err)
	}
}

// Attributes that come as JSON, such as from a form.
func ExampleAttributes() {
	_, err := client.Start(ctx, c, fulfil, "order-17", "3 apples", client.Attributes(`{"tenant": "acme", "items": 3, "due": {"time": "2026-11-22T08:00:00Z"}}`))
	if err != nil {
		log.Fatal(err)
	}
}

// Headers are in pawl.InstanceInfo and pawl.ActivityInfo of the instance and of everything that it starts.
func ExampleHeader() {
	_, err := client.Start(ctx, c, fulfil, "order-17", "3 apples", client.Header("region", "eu"))
	if err != nil {
		log.Fatal(err)
	}
}

// An orchestration passes on the headers with which it was itself started.
func ExampleHeaders() {
	passed := history.Headers("").With("region", "eu").With("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if err := client.Send(ctx, c, approved, "order-17", true, client.Headers(passed)); err != nil {
		log.Fatal(err)
	}
}

// The instance exists at once, with the status pending, and begins on Monday.
func ExampleStartAt() {
	monday := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	_, err := client.Start(ctx, c, fulfil, "order-17", "3 apples", client.StartAt(monday), client.RunTimeout(72*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
}

// The job fails with ErrTimeout after an hour, whatever the number of its attempts.
func ExampleWithin() {
	run, err := client.Run(ctx, c, resize, "thumb-17", "17.jpg", client.Within(time.Hour), client.AttemptTimeout(time.Minute), client.Retry(pawl.Retry{Attempts: 100}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
}

// SendUpdate does not wait for the answer. AttachUpdate waits for it later, also in another process, by the id of the update.
func ExampleSendUpdate() {
	sent, err := client.SendUpdate(ctx, c, reserve, "stock", 3, client.UpdateID("order-17"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.ID())
}

func ExampleAttachUpdate() {
	left, err := client.AttachUpdate(c, reserve, "stock", "order-17").Answer(ctx)
	if client.Rejected(err) {
		log.Fatal("not reserved: ", err)
	}
	fmt.Println(left, err)
}

func ExampleNewScheduleSend() {
	send, err := client.NewScheduleSend(tick, "clock", "every morning")
	if err != nil {
		log.Fatal(err)
	}
	err = c.CreateSchedule(ctx, "mornings", client.Schedule{
		Times: client.Times{Cron: []string{"0 8 * * MON-FRI"}, Zone: "Europe/Zurich"}, Send: send,
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A page of a list begins after the last instance of the previous page.
func ExampleCursor() {
	o := client.ListOptions{Where: "status = failed", Limit: 100}
	for {
		rows := 0
		for d, err := range c.List(ctx, o) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(d.Instance, d.Error)
			rows, o.After = rows+1, client.Cursor(d)
		}
		if rows < o.Limit {
			return
		}
	}
}

// A process that has displayed the first 40 events reads the next ones, in pages of 100.
func ExampleClient_HistoryAfter() {
	for e, err := range c.HistoryAfter(ctx, "order-17", 0, 40, 100) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.ID, e.Type)
	}
}

// The zero value of the input is a template for a form.
func ExampleClient_InputExample() {
	input, err := c.InputExample(ctx, "fulfil")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", input)
}

// The file was written by pawl export, such as in another namespace.
func ExampleClient_Import() {
	export, err := os.ReadFile("order-17.json")
	if err != nil {
		log.Fatal(err)
	}
	got, err := c.Import(ctx, "order-17-again", export, client.Continue(), client.Reason("reproduces the failure"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Status)
}

// Stop also cancels the outstanding activities. They run again after Resume.
func ExampleClient_Pause() {
	if _, err := c.Pause(ctx, "order-17", client.Stop(), client.Reason("the warehouse is closed")); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Resume(ctx, "order-17"); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Retry() {
	if _, err := c.Retry(ctx, "order-17", client.Reason("the card is valid again")); err != nil { // from before the failure
		log.Fatal(err)
	}
	if _, err := c.Retry(ctx, "order-18", client.FromStart()); err != nil { // with the newest version of the code
		log.Fatal(err)
	}
}

// The records of inputs that could not be used, such as malformed ones.
func ExampleClient_Refused() {
	for r, err := range c.Refused(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.At, r.Instance, r.Reason)
		if err := c.DropRefused(ctx, r.Instance); err != nil {
			log.Fatal(err)
		}
	}
}

// A policy that was recorded has the units of its storage.
func ExamplePolicyOf() {
	p := client.PolicyOf(history.Policy{Concurrency: 5, Rate: 10, RateWindow: 1000})
	fmt.Println(p.Concurrency, p.Rate, p.RateWindow, p.Limits(), p.Validate())
	// Output: 5 10 1s true <nil>
}

// The status of an instance that has ended does not change unless an operator continues it.
func ExampleStatus_Ended() {
	fmt.Println(client.Failed.Ended(), client.Running.Ended())
	// Output: true false
}
