package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/worker"
)

// The code of docs/guide/dynamic-handles.md.

// Pipeline is a list of activities to run in order, by name. The output of each is the input of the next.
type Pipeline struct {
	Steps []string        `json:"steps"`
	Input json.RawMessage `json:"input"`
}

var RunPipeline = pawl.NewOrchestration[Pipeline, json.RawMessage]("run-pipeline")

func runPipeline(ctx *pawl.Context, p Pipeline) (json.RawMessage, error) {
	value := p.Input
	for _, name := range p.Steps {
		step := pawl.NewActivity[json.RawMessage, json.RawMessage](name, pawl.Queue("pipeline"))
		next, err := step.Call(ctx, value, pawl.Retry{Attempts: 3})
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", name, err)
		}
		value = next
	}
	return value, nil
}

// Film is downloaded and encoded on one machine: the file is on its disk.
type Film struct {
	URL string `json:"url"`
}

// LocalFile is a file on the disk of one host.
type LocalFile struct {
	Host string `json:"host"`
	Path string `json:"path"`
}

var (
	EncodeFilm   = pawl.NewOrchestration[Film, string]("encode-film")
	DownloadFilm = pawl.NewActivity[Film, LocalFile]("download-film") // any worker
)

// EncodeOn is the activity encode on one host's task queue.
func EncodeOn(host string) pawl.Activity[LocalFile, string] {
	return pawl.NewActivity[LocalFile, string]("encode", pawl.Queue("encode-on-"+host))
}

func encodeFilm(ctx *pawl.Context, f Film) (string, error) {
	var last error
	for range 3 { // a host may be lost, and its disk with it
		file, err := DownloadFilm.Call(ctx, f, pawl.Retry{})
		if err != nil {
			return "", err
		}
		result, err := EncodeOn(file.Host).Call(ctx, file, pawl.Within(time.Hour))
		if err == nil {
			return result, nil
		}
		last = err
	}
	return "", fmt.Errorf("encode %s: %w", f.URL, last)
}

// encoderBindings are the activities of the worker on one host.
func encoderBindings(host string) []pawl.ActivityBinding {
	return []pawl.ActivityBinding{
		DownloadFilm.Do(func(_ context.Context, f Film) (LocalFile, error) {
			return LocalFile{Host: host, Path: "/tmp/" + path.Base(f.URL)}, nil
		}),
		EncodeOn(host).Do(func(_ context.Context, f LocalFile) (string, error) {
			return fmt.Sprintf("%s, encoded on %s", f.Path, host), nil
		}),
	}
}

func TestGuidePipelineCallsActivitiesByName(t *testing.T) {
	env := pawltest.New(t, RunPipeline.Do(runPipeline))
	for _, name := range []string{"double", "increment"} {
		env.Fake(pawl.NewActivity[int, int](name).Do(func(_ context.Context, n int) (int, error) {
			return map[string]int{"double": 2 * n, "increment": n + 1}[name], nil
		}))
	}
	got, err := pawltest.Run(env, RunPipeline, Pipeline{Steps: []string{"double", "increment", "double"}, Input: json.RawMessage("3")})
	if string(got) != "14" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestGuideFilmIsEncodedOnTheHostThatDownloadedIt(t *testing.T) {
	nc, rdb := servers(t)
	orchestrate(t, nc, rdb, EncodeFilm.Do(encodeFilm))
	c := connect(t, nc)
	for _, host := range []string{"a", "b"} {
		w, err := worker.New(worker.Config{NATS: nc, Redis: rdb, Concurrency: 1}, encoderBindings(host)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Stop(context.Background()) })
	}
	for i := range 10 {
		run, err := client.Start(t.Context(), c, EncodeFilm, fmt.Sprintf("film-%d", i), Film{URL: "https://films.example/a.mov"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := run.Result(t.Context())
		if err != nil || got != "/tmp/a.mov, encoded on a" && got != "/tmp/a.mov, encoded on b" {
			t.Errorf("%q, %v", got, err)
		}
		d, err := c.Describe(t.Context(), run.ID())
		if err != nil || d.Events != 8 { // one download, one encoding and its timer: no attempt was made on the other host
			t.Errorf("%d events, %v", d.Events, err)
		}
	}
}

func TestGuideDynamicHandlesPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/dynamic-handles.md"), 3, doctest.Read(t, "guide_handles_test.go"))
}
