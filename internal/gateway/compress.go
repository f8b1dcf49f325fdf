package gateway

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// minCompressed is the minimum length in bytes of a response that is compressed, if its length is known in advance.
const minCompressed = 1 << 10

// compress applies gzip to text responses for clients that accept it. Event streams are not compressed.
func compress(h http.Handler) http.Handler {
	pool := &sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
		return z
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead || r.Header.Get("Range") != "" || !acceptsGzip(r.Header) {
			h.ServeHTTP(w, r)
			return
		}
		c := &compressed{ResponseWriter: w, pool: pool}
		defer c.close()
		h.ServeHTTP(c, r)
	})
}

// acceptsGzip reports whether the client accepts gzip, and has not excluded it with a weight of 0.
func acceptsGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(one, ";")
			_, weight, _ = strings.Cut(weight, "=")
			if q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64); strings.EqualFold(strings.TrimSpace(name), "gzip") {
				return err != nil || q > 0
			}
		}
	}
	return false
}

// compressed is a ResponseWriter that applies gzip if the content is text.
type compressed struct {
	http.ResponseWriter

	pool   *sync.Pool
	header bool         // whether the header has been written
	z      *gzip.Writer // nil: not compressed
}

// Unwrap implements the interface of http.ResponseController.
func (c *compressed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader decides whether the response is compressed, and writes the header.
func (c *compressed) WriteHeader(status int) {
	if !c.header {
		c.header = true
		h := c.Header()
		kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
		if status != http.StatusNoContent && status != http.StatusNotModified && h.Get("Content-Encoding") == "" && isText(kind) && !isShort(h) {
			h.Set("Content-Encoding", "gzip")
			h.Add("Vary", "Accept-Encoding")
			h.Del("Content-Length")
			h.Del("Accept-Ranges")
			c.z, _ = c.pool.Get().(*gzip.Writer)
			c.z.Reset(c.ResponseWriter)
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

// isShort reports whether a response of known length is too short to be compressed.
func isShort(h http.Header) bool {
	n, err := strconv.Atoi(h.Get("Content-Length"))
	return err == nil && n < minCompressed
}

func isText(kind string) bool {
	switch kind {
	case "text/html", "text/css", "text/javascript", "application/json", "application/problem+json", "image/svg+xml":
		return true
	default:
		return false
	}
}

// Write writes a part of the body.
func (c *compressed) Write(b []byte) (int, error) {
	if !c.header {
		c.WriteHeader(http.StatusOK)
	}
	if c.z != nil {
		return c.z.Write(b)
	}
	return c.ResponseWriter.Write(b)
}

func (c *compressed) close() {
	if c.z != nil {
		_ = c.z.Close() // the client may have disconnected
		c.pool.Put(c.z)
	}
}
