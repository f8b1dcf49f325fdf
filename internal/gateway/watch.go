package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/live"
)

const (
	streamBeat  = 15 * time.Second // time between two keep-alive comments
	streamWrite = 10 * time.Second // maximum time that a client takes to read one frame
)

// watchInstances streams the changes of all instances that pass a filter.
func watchInstances(c *call, w http.ResponseWriter) error {
	where, err := c.where()
	if err != nil {
		return err
	}
	return c.stream(live.Filter{Where: where}, w)
}

func watchInstance(c *call, w http.ResponseWriter) error {
	id := c.PathValue("id")
	if err := pawl.ValidateID(id); err != nil {
		return err
	}
	return c.stream(live.Filter{Instance: id}, w)
}

// stream writes events until the client disconnects, takes longer than 10 s to read one, or the server stops.
func (c *call) stream(f live.Filter, w http.ResponseWriter) error {
	last := c.Header.Get("Last-Event-ID")
	if last == "" {
		last = c.query.Get("last")
	}
	s, first, err := c.hub.Open(f, last)
	if errors.Is(err, live.ErrFull) {
		return &problem{Status: http.StatusServiceUnavailable, Detail: "this process already serves the maximum number of streams", Do: "close streams, or use another process"}
	}
	if err != nil {
		return &problem{Status: http.StatusServiceUnavailable, Detail: userText(err), Do: repeat}
	}
	defer s.Close()
	holdConnection(c.Context())
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the read deadline of the request would cancel the context of the stream
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // disables buffering in proxies
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	for next := first; ; {
		_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
		_, err := w.Write(next) //nolint:gosec // JSON, in a type that no browser renders
		if err == nil {
			err = control.Flush()
		}
		if err != nil || c.Method == http.MethodHead { // the client has disconnected or is too slow; it can resume
			return nil
		}
		select {
		case next = <-s.Frames():
		case <-s.Lost():
			next = s.Recover()
		case <-beat.C:
			next = []byte(":\n\n")
		case <-s.Ended():
			return nil
		case <-c.Context().Done():
			return nil
		}
	}
}
