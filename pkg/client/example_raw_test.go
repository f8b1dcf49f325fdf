package client_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// text returns a JSON payload, which programs in other languages exchange and handles encode by default.
func text(v any) history.Payload {
	data, err := json.Marshal(v)
	if err != nil {
		log.Fatal(err)
	}
	return history.Payload{Type: history.TypeJSON, Data: data}
}

// The policy, here from a flag or a form, is an option of Start.
func ExampleParseIDReuse() {
	policy, err := client.ParseIDReuse("reject")
	fmt.Println(policy == client.Reject, err)
	_, err = client.ParseIDReuse("replace")
	fmt.Println(err)
	// Output:
	// true <nil>
	// client: id reuse "replace": want ignore, reject, after-failure or terminate-existing
}

// A gateway has names and JSON, and no handles.
func ExampleClient_StartRaw() {
	run, err := c.StartRaw(ctx, "fulfil", "order-17", text("3 apples"), client.Version("2"))
	if err != nil {
		log.Fatal(err)
	}
	result, err := run.Result(ctx)
	fmt.Printf("%s %v\n", result.Data, err)
}

func ExampleClient_AttachRaw() {
	result, err := c.AttachRaw("order-17").Result(ctx)
	fmt.Printf("%s %v\n", result.Data, err)
}

func ExampleClient_SendRaw() {
	if err := c.SendRaw(ctx, "approved", "order-17", text(true), client.By("finance")); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_SendOrStartRaw() {
	run, err := c.SendOrStartRaw(ctx, "fulfil", "order-17", text("3 apples"), "approved", text(true))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.ID())
}

func ExampleClient_QueryRaw() {
	answer, err := c.QueryRaw(ctx, "on-hand", "stock-7", history.Payload{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s at event %d\n", answer.Value.Data, answer.Events)
}

func ExampleClient_SendUpdateRaw() {
	update, err := c.SendUpdateRaw(ctx, "reserve", "stock-7", text(3), client.UpdateID("order-17"))
	if err != nil {
		log.Fatal(err)
	}
	left, err := update.Answer(ctx)
	fmt.Printf("%s %v\n", left.Data, err)
}

// Another process can wait for the answer to an update that was sent earlier.
func ExampleClient_AttachUpdateRaw() {
	left, err := c.AttachUpdateRaw("reserve", "stock-7", "order-17").Answer(ctx)
	fmt.Printf("%s %v\n", left.Data, err)
}

func ExampleClient_UpdateWithStartRaw() {
	update, err := c.UpdateWithStartRaw(ctx, "stock", "stock-7", text(10), "reserve", text(3))
	if err != nil {
		log.Fatal(err)
	}
	left, err := update.Answer(ctx)
	fmt.Printf("%s %v\n", left.Data, err)
}

// An empty task queue selects the queue with the activity's name.
func ExampleClient_RunRaw() {
	job, err := c.RunRaw(ctx, "resize", "", "photo-17", text("17.jpg"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.ID())
}
