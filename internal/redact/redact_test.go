package redact

import (
	"strings"
	"testing"
)

func TestNoPasswordIsShownHoweverTheURLIsWritten(t *testing.T) {
	for given, want := range map[string]string{
		"nats://u:secret@h:4222":                   "nats://***@h:4222",
		"nats://u:secret@a,nats://v:secret@b":      "nats://***@a,nats://***@b",
		"u:secret@h:4222":                          "***@h:4222",
		"redis://:se,secret@h:6379/0?db=1":         "redis://***@h:6379/0?db=1",
		"redis+cluster://u:secret@h1:1,h2:2":       "redis+cluster://***@h1:1,h2:2",
		"nats://h:4222":                            "nats://h:4222",
		"u:secret@a:1,v:secret@b:2":                "***@b:2",
		"redis+sentinel://h:1,h:2?master_name=m@1": "redis+sentinel://h:1,h:2?master_name=m@1",
	} {
		if got := URLs(given); got != want || strings.Contains(got, "secret") {
			t.Errorf("%s is shown as %s, want %s", given, got, want)
		}
	}
}
