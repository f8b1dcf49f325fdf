package settings

import (
	"log/slog"
	"os"
	"time"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pawlcodec"
)

// NATS contains the address of NATS and the credentials.
type NATS struct {
	NATSURL   URL    `name:"nats" env:"PAWL_NATS" default:"nats://127.0.0.1:4222" help:"NATS server; several separated by commas."`
	NATSUser  string `name:"nats-user" env:"PAWL_NATS_USER" placeholder:"NAME" help:"User name, for use with a password file."`
	NATSPass  string `name:"nats-password-file" env:"PAWL_NATS_PASSWORD_FILE" type:"path" placeholder:"FILE" help:"File with the password, or without --nats-user with a token. Read at every connect."`
	NATSCreds string `name:"nats-creds" env:"PAWL_NATS_CREDS" type:"path" placeholder:"FILE" help:"Credentials file (JWT and seed). Read at every connect."`
	NATSNKey  string `name:"nats-nkey" env:"PAWL_NATS_NKEY" type:"path" placeholder:"FILE" help:"NKey seed file."`
	NATSInbox string `name:"nats-inbox-prefix" env:"PAWL_NATS_INBOX_PREFIX" default:"_INBOX" placeholder:"PREFIX" help:"Prefix of the subjects for replies. With one prefix per role, no role can read the replies to another."`
	NATSCA    string `name:"nats-ca" env:"PAWL_NATS_CA" type:"path" placeholder:"FILE" help:"PEM file of the authority that signed the server's certificate."`
	NATSCert  string `name:"nats-cert" env:"PAWL_NATS_CERT" type:"path" placeholder:"FILE" help:"PEM file of the client certificate."`
	NATSKey   string `name:"nats-key" env:"PAWL_NATS_KEY" type:"path" placeholder:"FILE" help:"PEM file of the key of the client certificate."`
}

// Redis contains the address of Redis and the credentials.
type Redis struct {
	RedisURL  URL    `name:"redis" env:"PAWL_REDIS" default:"${redis}" help:"Redis: redis://, rediss:// or unix://; a cluster as redis+cluster://h1:p1,h2:p2; sentinels as redis+sentinel://h1:p1,h2:p2?master_name=NAME. Client options as query parameters."`
	RedisUser string `name:"redis-user" env:"PAWL_REDIS_USER" placeholder:"NAME" help:"User name, for use with a password file."`
	RedisPass string `name:"redis-password-file" env:"PAWL_REDIS_PASSWORD_FILE" type:"path" placeholder:"FILE" help:"File with the password. Read at every connect."`
	RedisCA   string `name:"redis-ca" env:"PAWL_REDIS_CA" type:"path" placeholder:"FILE" help:"PEM file of the authority that signed the server's certificate."`
	RedisCert string `name:"redis-cert" env:"PAWL_REDIS_CERT" type:"path" placeholder:"FILE" help:"PEM file of the client certificate."`
	RedisKey  string `name:"redis-key" env:"PAWL_REDIS_KEY" type:"path" placeholder:"FILE" help:"PEM file of the key of the client certificate."`
}

// Log configures the log, which goes to standard error.
type Log struct {
	LogLevel  string `name:"log-level" env:"PAWL_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"Minimum level to log: ${enum}."`
	LogFormat string `name:"log-format" env:"PAWL_LOG_FORMAT" default:"text" enum:"text,json" help:"Format of log lines: ${enum}."`
}

// Namespace selects the namespace.
type Namespace struct {
	Namespace string `name:"namespace" env:"PAWL_NAMESPACE" default:"default" help:"Namespace. Fleets with different namespaces can share servers."`
}

// Payloads configures the codec of payloads, which must be the same for all processes and commands of a fleet.
type Payloads struct {
	PayloadKeys string `name:"payload-keys" env:"PAWL_PAYLOAD_KEYS_FILE" type:"path" placeholder:"FILE" help:"File of the keys that encrypt payloads: on each line ID=BASE64 of 32 random bytes, the current key first. Read again when it changes. Without a file, $PAWL_PAYLOAD_KEYS may contain keys. Default: payloads are not encrypted."`
	Compress    bool   `name:"compress-payloads" env:"PAWL_COMPRESS_PAYLOADS" help:"Compress payloads."`
	Store       bool   `name:"store-payloads" env:"PAWL_STORE_PAYLOADS" help:"Keep payloads of more than 64 KiB in the object store of the namespace (a JetStream stream). The maximum is then 64 MiB instead of 512 KiB."`
}

// keysVariable contains keys, for deployments that pass secrets in variables.
const keysVariable = "PAWL_PAYLOAD_KEYS"

// Codec returns the configured codec, or nil if none is configured.
func (p Payloads) Codec(log *slog.Logger) (*pawlcodec.Codec, error) {
	o := pawlcodec.Options{Compress: p.Compress, Store: p.Store}
	var err error
	switch {
	case p.PayloadKeys != "":
		warnReadable(orDiscard(log), p.PayloadKeys)
		o.Keys, err = pawlcodec.FileKeys(p.PayloadKeys)
	case os.Getenv(keysVariable) != "":
		o.Keys, err = pawlcodec.EnvKeys(keysVariable)
	case !p.Compress && !p.Store:
		return nil, nil //nolint:nilnil // a nil Codec seals nothing
	}
	if err != nil {
		return nil, err
	}
	return pawlcodec.New(o)
}

// Fleet contains the settings of every process of a fleet.
type Fleet struct {
	Namespace
	NATS
	Redis
	Log
	Payloads

	Replies []string `name:"reply-prefixes" env:"PAWL_REPLY_PREFIXES" default:"_INBOX" placeholder:"PREFIX" help:"Prefixes of the subjects to which replies are sent, separated by commas."`

	HTTPAccess

	Drain    time.Duration `name:"drain" env:"PAWL_DRAIN" default:"30s" help:"Maximum time for running work to end after a signal to stop."`
	HTTP     string        `name:"http" env:"PAWL_HTTP" placeholder:"ADDR" help:"Address of the console, /api/v1, /healthz, /readyz and /metrics, such as 127.0.0.1:7295. An address without a host is on 127.0.0.1; 0.0.0.0 is all interfaces. Default: off."`
	Pprof    string        `name:"pprof" env:"PAWL_PPROF" placeholder:"ADDR" help:"Address of profiles at /debug/pprof/, without access control, such as 127.0.0.1:6060. An address without a host is on 127.0.0.1. Default: off."`
	Examples bool          `name:"examples" env:"PAWL_EXAMPLES" help:"Register Pawl's examples."`
}

// HTTPAccess configures the users of the HTTP API and the console, and the effects of external events.
type HTTPAccess struct {
	Tokens       string `name:"http-tokens" env:"PAWL_HTTP_TOKENS" type:"existingfile" placeholder:"FILE" help:"File of the users of the API: on each line a token, a role (viewer, operator or admin) and a name. Addresses other than loopback addresses require this file or an issuer."`
	OIDCIssuer   string `name:"oidc-issuer" env:"PAWL_OIDC_ISSUER" placeholder:"URL" help:"OpenID Connect issuer whose tokens are accepted."`
	OIDCAudience string `name:"oidc-audience" env:"PAWL_OIDC_AUDIENCE" default:"pawl" help:"Required audience of such a token."`
	OIDCRoles    string `name:"oidc-roles" env:"PAWL_OIDC_ROLES" default:"roles" placeholder:"CLAIM" help:"Claim that contains the roles, such as realm_access.roles."`
	OIDCClient   string `name:"oidc-client" env:"PAWL_OIDC_CLIENT" placeholder:"ID" help:"Client id with which browsers sign in to the console at the issuer. Default: users enter a token."`
	OIDCSecret   string `name:"oidc-secret-file" env:"PAWL_OIDC_SECRET_FILE" type:"path" placeholder:"FILE" help:"File with the secret of the client, if it has one. Read at every sign-in."`
	Triggers     string `name:"triggers" env:"PAWL_TRIGGERS" type:"existingfile" placeholder:"FILE" help:"File that configures the effect of CloudEvents and webhooks; see docs/http-api.md."`
}

// OIDC returns the configuration of the issuer.
func (a HTTPAccess) OIDC() access.OIDCConfig {
	return access.OIDCConfig{Issuer: a.OIDCIssuer, Audience: a.OIDCAudience, RoleClaim: a.OIDCRoles, Client: a.OIDCClient, SecretFile: a.OIDCSecret}
}

// Orchestrator contains the further settings of an orchestrator.
type Orchestrator struct {
	Partitions int           `name:"partitions" env:"PAWL_PARTITIONS" default:"64" help:"Number of partitions, at most 1024; for an existing namespace its number, which \"pawl partitions resize\" changes."`
	Replicas   int           `name:"replicas" env:"PAWL_REPLICAS" default:"1" help:"Replicas of new NATS streams."`
	ObjectsMax Size          `name:"objects-max-bytes" env:"PAWL_OBJECTS_MAX_BYTES" placeholder:"SIZE" help:"Maximum size of the object store, such as 64GiB. A full store rejects large payloads. NATS reserves the size. Takes effect at the start. Default: no limit."`
	InputsMax  Size          `name:"inputs-max-bytes" env:"PAWL_INPUTS_MAX_BYTES" default:"1GiB" placeholder:"SIZE" help:"Maximum size of the stream of inputs, such as 512MiB. A full stream rejects messages. NATS reserves the size. Takes effect at the start."`
	MaxDepth   uint64        `name:"max-child-depth" env:"PAWL_MAX_CHILD_DEPTH" default:"100" help:"Maximum depth of children below an instance. Deeper calls fail with pawl.ErrTooDeep."`
	Reconcile  time.Duration `name:"reconcile-interval" env:"PAWL_RECONCILE_INTERVAL" default:"10s" help:"Maximum time between two reconciliations of an instance with outstanding activities. A reconciliation repairs what was lost."`

	Retention    Retention `name:"retention" env:"PAWL_RETENTION" default:"72h" help:"Time for which ended instances are kept: a duration such as 72h, forever, or a time per status, such as completed=24h,failed=720h,cancelled=forever."`
	FailDiverged bool      `name:"fail-diverged" env:"PAWL_FAIL_DIVERGED" help:"Fail an instance whose code does not match its history. Otherwise the instance is stalled until compatible code runs."`
}

// Worker contains the further settings of a worker.
type Worker struct {
	LeaseTTL    time.Duration `name:"lease-ttl" env:"PAWL_LEASE_TTL" default:"10s" help:"Time after which the activities of an unreachable worker are claimed by another."`
	Concurrency int           `name:"concurrency" env:"PAWL_CONCURRENCY" default:"64" help:"Maximum number of concurrent activities of each task queue."`

	Grace        time.Duration `name:"grace" env:"PAWL_GRACE" default:"10s" help:"Grace period: time that a cancelled activity has to return, unless it declares its own. Afterwards its slot is free."`
	MaxAbandoned int           `name:"max-abandoned" env:"PAWL_MAX_ABANDONED" default:"100" help:"Maximum number of abandoned activities, which still run after their grace period. With more, the worker is not ready."`
}

// Data contains the directory of the embedded servers.
type Data struct {
	Data string `name:"data" env:"PAWL_DATA" default:"pawl-data" type:"path" help:"Directory of the embedded NATS and Redis."`
}
