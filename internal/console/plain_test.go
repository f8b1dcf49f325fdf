package console_test

import (
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/pawlrun/pawl/pkg/client"
)

// Everything can be read, found and operated in a browser that does not run scripts.
func withoutScripts(h *harness, b *browser) {
	scripts := func(disabled bool) {
		_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: disabled})
		check(h.TB, err)
	}
	scripts(true)
	defer scripts(false)
	text := func() string { return b.eval(`document.querySelector("main").innerText`) }
	for name, path := range screens {
		b.open(path)
		if wrong := b.eval(audit); wrong != "" {
			h.Errorf("%s: %s", name, wrong)
		}
		if live := b.eval(`document.querySelector("#live").textContent`); live != "" {
			h.Fatalf("%s: a script has run: %s", name, live)
		}
	}
	_, err := client.Start(h.Context(), h.client, fulfil, "plain-1", "lamp")
	check(h.TB, err)
	h.until("plain-1 waits for its event", func(d client.Description) bool { return d.Events == 5 && len(d.Activities) == 0 }, "plain-1")

	b.open("/instances")
	b.run(fill("[name=where]", "id starts plain-"), click(".filter button.main"), visible(`tr[data-row="plain-1"]`), click(`tr[data-row="plain-1"] a`), visible(".timeline"))
	for _, want := range []string{"Waits for event approved", "reserve-stock", "Started", "pawl get plain-1"} {
		if got := text(); !strings.Contains(got, want) {
			h.Errorf("the page of the instance lacks %q: %s", want, got)
		}
	}
	b.run(click(".events details summary"), visible(".events details[open] .json, .events details[open] pre"))
	b.run(click(`.why a[href$="/send?name=approved"]`), visible("#data"), fill("#data", `"finance"`), click("button.main"))
	h.status("plain-1", client.Completed)
	b.run(click("a[data-reload]"), visible(".head .pill.ok"))

	b.open("/start?orchestration=" + fulfil.Name())
	b.run(fill("#id", "plain-2"), click("form button.main"), visible(".head .pill"))
	h.until("plain-2 waits for its event", func(d client.Description) bool { return len(d.AwaitedEvents) == 1 }, "plain-2")
	b.open("/instances?where=id+%3D+plain-2")
	b.run(click(`input[value="plain-2"]`), click(`#bulk button[value="cancel"]`), visible("button.danger"), click("button.danger"))
	h.status("plain-2", client.Cancelled)
}
