package eventcodec_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestDeclarationRoundTrips(t *testing.T) {
	for _, d := range []history.Declared{
		{}, {Group: "g"}, {Action: &history.Policy{Concurrency: 5}}, {Group: "g", GroupPolicy: &history.Policy{Rate: 3, RateWindow: 1000, Reject: true}},
	} {
		got, err := eventcodec.DecodeDeclared(eventcodec.EncodeDeclared(d))
		if err != nil || got.Group != d.Group || (got.Action == nil) != (d.Action == nil) || got.Action != nil && *got.Action != *d.Action ||
			(got.GroupPolicy == nil) != (d.GroupPolicy == nil) || got.GroupPolicy != nil && *got.GroupPolicy != *d.GroupPolicy {
			t.Errorf("%+v became %+v, %v", d, got, err)
		}
	}
	if _, err := eventcodec.DecodeDeclared([]byte{0xc1}); err == nil {
		t.Error("invalid bytes are accepted")
	}
}
