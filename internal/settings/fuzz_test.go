package settings

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// FuzzRedisURL reads any URL. It must not panic, and no error may quote the text before an @.
func FuzzRedisURL(f *testing.F) {
	for _, u := range []string{
		"redis://u:p@h:1/2", "rediss://h?skip_verify=true", "unix:///run/r.sock?db=1", "redis+cluster://a:1,b:2?max_retries=3", "redis+sentinel://[::1]:1?master_name=m",
		"redis://u:a/b@h", "redis://u:a?b@h", "redis://u:%zz@h", "redis://u:1#a@h", "redis://,,,", "://", "redis+x://h", "redis://h?pool_size=-9",
	} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "QXJZQXJZ"
		for _, raw := range []string{text, strings.Replace(text, "@", secret+"@", 1)} {
			_, u, err := normalise(raw)
			shown := URL(raw).String()
			if err != nil {
				shown += err.Error()
			} else if _, err := redis.ParseURL(u); err != nil {
				shown += bare(u, err).Error()
			}
			if !strings.Contains(text, secret) && strings.Contains(shown, secret) {
				t.Errorf("%s: %s", raw, shown)
			}
		}
	})
}
