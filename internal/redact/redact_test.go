package redact_test

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/redact"
)

func TestPasswordsInURLsAreRedacted(t *testing.T) {
	for given, want := range map[string]string{
		"nats://u:secret@h:4222":                     "nats://***@h:4222",
		"nats://u:secret@a,nats://v:secret@b":        "nats://***@a,nats://***@b",
		"nats://a:1,nats://v:secret@b":               "nats://***,nats://***@b",
		"u:secret@h:4222":                            "***@h:4222",
		"redis://:se,secret@h:6379/0?db=1":           "redis://***@h:6379/0",
		"redis+cluster://u:secret@h1:1,h2:2":         "redis+cluster://***@h1:1,h2:2",
		"nats://h:4222":                              "nats://h:4222",
		"u:secret@a:1,v:secret@b:2":                  "***@b:2",
		"redis+sentinel://h:1,h:2?password=secret":   "redis+sentinel://h:1,h:2",
		"redis+sentinel://h:1?password=a,secret":     "redis+sentinel://h:1",
		"redis+sentinel://h:1,h:2?master_name=m@1":   "redis+sentinel://***",
		"redis://u:se/secret@h":                      "redis://***",
		"redis://u:1/secret@h":                       "redis://***",
		"redis://u:1?secret@h":                       "redis://***",
		"redis://u:1#secret@h":                       "redis://***",
		"redis://u:%zzsecret@h":                      "redis://***",
		"redis://u:secret":                           "redis://***",
		"redis://h/secret":                           "redis://h",
		"unix://u:secret@/run/redis.sock?password=x": "unix://***@/run/redis.sock",
		"u:secret/@h":                                "***",
	} {
		if got := redact.URLs(given); got != want || strings.Contains(got, "secret") {
			t.Errorf("%s is shown as %s, want %s", given, got, want)
		}
	}
}

// Password generates passwords in which every sequence of letters can be recognized, because it is long and in upper case.
func Password() *rapid.Generator[string] {
	part := rapid.StringMatching(`[A-Z]{4}`)
	between := rapid.SampledFrom([]string{"", "/", "?", "#", "@", ":", ",", "%", "%zz", "%2F", "[", "]", " ", "&", "=", "\\", ";", "//", "ä", ",x://", "\""})
	return rapid.Custom(func(t *rapid.T) string {
		return part.Draw(t, "part") + between.Draw(t, "between") + part.Draw(t, "part") + between.Draw(t, "between") + part.Draw(t, "part")
	})
}

func TestNoPartOfAPasswordIsShownForAnyURL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := Password().Draw(t, "password")
		if rapid.Bool().Draw(t, "escaped") {
			password = url.QueryEscape(password)
		}
		scheme := rapid.SampledFrom([]string{"nats://", "redis://", "rediss://", "redis+cluster://", "redis+sentinel://", "unix://", ""}).Draw(t, "scheme")
		host := rapid.SampledFrom([]string{"h:1", "[::1]:1", "h", "a:1,b:2", "", "/run/r.sock"}).Draw(t, "host")
		tail := rapid.SampledFrom([]string{"", "/0", "?db=1", "/?x=y@z", "?password=" + password}).Draw(t, "tail")
		list := scheme + rapid.SampledFrom([]string{"u:", ":"}).Draw(t, "user") + password + "@" + host + tail
		if rapid.Bool().Draw(t, "behind another") {
			list = scheme + "other:1," + list
		}
		shown := redact.URLs(list)
		for _, text := range []string{shown, redact.ErrURL.Error()} {
			if strings.ContainsFunc(strings.NewReplacer("URL", "", "%2F", "", "%3F", "", "%23", "", "%40", "", "%3A", "", "%2C", "", "%25", "").Replace(text), func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
				t.Fatalf("%s is shown as %s", list, text)
			}
		}
	})
}
