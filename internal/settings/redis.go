package settings

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redact"
	"github.com/pawlrun/pawl/internal/redisx"
)

const redisTimeout = 5 * time.Second

// DialRedis returns a client for an orchestrator or a worker. It connects at its first use: the Start of the orchestrator or worker waits
// until Redis is available, and rejects a Redis that evicts keys.
func (r Redis) DialRedis(log *slog.Logger) (redis.UniversalClient, error) {
	rdb, err := r.client(log)
	if err != nil {
		return nil, fmt.Errorf("Redis at %s: %w", r.RedisURL, err)
	}
	return rdb, nil
}

// OpenRedis connects, and rejects a server that evicts keys (*redisx.EvictionError). If the
// eviction policy cannot be read, it logs a warning and continues. The error is one line with the address
// and what was tried. The attempt is bounded by ctx and by 5 s.
func (r Redis) OpenRedis(ctx context.Context, log *slog.Logger) (redis.UniversalClient, error) {
	rdb, err := r.DialRedis(log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		err = fmt.Errorf("Redis at %s is not reachable: %w (tried to connect and PING, %s at most)", r.RedisURL, err, redisTimeout)
		return nil, errors.Join(err, rdb.Close())
	}
	if err := redisx.CheckPolicy(ctx, rdb, log.With("url", r.RedisURL)); err != nil {
		return nil, errors.Join(fmt.Errorf("Redis at %s: %w", r.RedisURL, err), rdb.Close())
	}
	return rdb, nil
}

// client returns a client, and logs insecure settings. log may be nil.
func (r Redis) client(log *slog.Logger) (redis.UniversalClient, error) {
	log = orDiscard(log)
	kind, u, err := normalise(string(r.RedisURL))
	if err != nil {
		return nil, err
	}
	credentials, err := r.credentials(log)
	if err != nil {
		return nil, err
	}
	warnReadable(log, r.RedisPass, r.RedisKey)
	switch kind {
	case "cluster":
		o, err := redis.ParseClusterURL(u)
		if err != nil {
			return nil, bare(u, err)
		}
		o.CredentialsProviderContext = credentials
		if o.TLSConfig, err = r.tls(log, o.TLSConfig); err != nil {
			return nil, err
		}
		return redis.NewClusterClient(o), nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(u)
		if err != nil {
			return nil, bare(u, err)
		}
		if o.MasterName == "" {
			return nil, errors.New("sentinels need ?master_name=NAME")
		}
		o.CredentialsProviderContext = credentials
		if o.TLSConfig, err = r.tls(log, o.TLSConfig); err != nil {
			return nil, err
		}
		return redis.NewFailoverClient(o), nil
	default:
		o, err := redis.ParseURL(u)
		if err != nil {
			return nil, bare(u, err)
		}
		o.CredentialsProviderContext = credentials
		if o.TLSConfig, err = r.tls(log, o.TLSConfig); err != nil {
			return nil, err
		}
		return redis.NewClient(o), nil
	}
}

func (r Redis) tls(log *slog.Logger, base *tls.Config) (*tls.Config, error) {
	c, err := tlsConfig(base, r.RedisCA, r.RedisCert, r.RedisKey)
	if err == nil && c != nil && c.InsecureSkipVerify {
		log.Warn("redis certificate not verified", "setting", "skip_verify", "url", r.RedisURL)
	}
	return c, err
}

// credentials returns the provider of the credentials of the data nodes. Sentinels use the credentials of the URL.
func (r Redis) credentials(log *slog.Logger) (func(context.Context) (string, string, error), error) {
	raw := string(r.RedisURL)
	switch {
	case r.RedisPass == "" && r.RedisUser != "":
		return nil, errors.New("--redis-user needs --redis-password-file")
	case r.RedisPass == "":
		return nil, nil //nolint:nilnil // without a provider, the client uses the credentials of the URL
	case strings.Contains(raw, "password=") || strings.Contains(raw, "@") && !strings.Contains(raw, "+sentinel://"):
		return nil, errTwoPasswords
	}
	first, err := readSecret(r.RedisPass)
	if err != nil {
		return nil, err
	}
	f := &secretFile{path: r.RedisPass, log: log, last: first}
	return f.provider(r.RedisUser), nil
}

// normalise converts a URL of the settings to one that the Redis client parses: all but the first
// host of a list become addr parameters. A list of hosts without a kind is a cluster.
func normalise(raw string) (kind, u string, err error) {
	if err := redact.Check(raw); err != nil {
		return "", "", err
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return "", "", errors.New("the URL must begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://")
	}
	scheme, kind, _ = strings.Cut(scheme, "+")
	if !slices.Contains([]string{"", "cluster", "sentinel"}, kind) {
		return "", "", errors.New("unknown kind of Redis after the + of the URL; use redis+cluster:// or redis+sentinel://") // it may be a part of a password
	}
	if scheme == "unix" {
		return kind, raw, nil
	}
	full, _, _ := strings.Cut(raw, "://")
	rest = strings.ReplaceAll(rest, ","+full+"://", ",")
	hosts, tail := rest, ""
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		hosts, tail = rest[:end], rest[end:]
	}
	list := strings.Split(hosts, ",")
	if kind == "" && len(list) > 1 {
		kind = "cluster"
	}
	for _, host := range list[1:] {
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			host = host[at+1:]
		}
		sep := "?"
		if strings.Contains(tail, "?") {
			sep = "&"
		}
		tail += sep + "addr=" + url.QueryEscape(host)
	}
	return kind, scheme + "://" + list[0] + tail, nil
}

// bare replaces an error of a parser that may quote a password: an error that quotes the URL, or that names an option of a query with a
// password, since the option may be a part of the password.
func bare(raw string, err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok || strings.Contains(raw, "pass") {
		return redact.ErrURL
	}
	return err
}
