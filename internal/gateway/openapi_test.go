package gateway

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pkg/client"
)

// The document and the router are derived from the same list. The document must be complete: each reference resolves to a
// component, and each operation has the fields that OpenAPI requires.
func TestDocumentDescribesEveryOperation(t *testing.T) {
	h := New(Config{Access: access.Policy{Loopback: true}, Client: func() *client.Client { return nil }})
	r, body := serve(t, h, http.MethodGet, "/api/v1/openapi.json")
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/json" {
		t.Fatal(r.StatusCode, r.Header)
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Parameters  []struct{ Name, In string }
			Responses   map[string]any
		}
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %q", doc.OpenAPI)
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]*)"`).FindAllStringSubmatch(body, -1) {
		if len(doc.Components.Schemas[ref[1]]) == 0 {
			t.Errorf("missing schema %s", ref[1])
		}
	}
	ids := map[string]bool{}
	for _, o := range operations() {
		d, there := doc.Paths[o.path][strings.ToLower(o.method)]
		if !there || d.OperationID == "" || ids[d.OperationID] || !strings.HasSuffix(d.Summary, ".") || d.Responses["default"] == nil || len(d.Responses) < 2 {
			t.Errorf("%s %s: %+v", o.method, o.path, d)
		}
		ids[d.OperationID] = true
		inPath := 0
		for _, p := range d.Parameters {
			if p.In == "path" {
				inPath++
			}
		}
		if inPath != strings.Count(o.path, "{") {
			t.Errorf("%s: %d parameters of the path", o.path, inPath)
		}
	}
}

func TestGuideListsEveryOperation(t *testing.T) {
	text := doctest.Read(t, "../../docs/http-api.md")
	rows := strings.Count(text, "\n| `GET /") + strings.Count(text, "\n| `POST /") + strings.Count(text, "\n| `PUT /") + strings.Count(text, "\n| `DELETE /")
	if rows != len(operations()) {
		t.Errorf("%d rows, %d operations", rows, len(operations()))
	}
	for _, o := range operations() {
		if row := "| `" + o.method + " " + o.path + "` | " + o.role.String() + " | "; !strings.Contains(text, row) {
			t.Errorf("missing: %s", row)
		}
	}
}
