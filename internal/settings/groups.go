package settings

import "time"

// NATS says where NATS is and how to get in.
type NATS struct {
	NATSURL   URL    `name:"nats" env:"PAWL_NATS" default:"nats://127.0.0.1:4222" help:"NATS server; several separated by commas."`
	NATSUser  string `name:"nats-user" env:"PAWL_NATS_USER" placeholder:"NAME" help:"User, of the password file."`
	NATSPass  string `name:"nats-password-file" env:"PAWL_NATS_PASSWORD_FILE" type:"path" placeholder:"FILE" help:"File with the password, or without --nats-user the token. Read at every connect."`
	NATSCreds string `name:"nats-creds" env:"PAWL_NATS_CREDS" type:"path" placeholder:"FILE" help:"Credentials file (JWT and seed). Read at every connect."`
	NATSNKey  string `name:"nats-nkey" env:"PAWL_NATS_NKEY" type:"path" placeholder:"FILE" help:"NKey seed file."`
	NATSInbox string `name:"nats-inbox-prefix" env:"PAWL_NATS_INBOX_PREFIX" default:"_INBOX" placeholder:"PREFIX" help:"What the subjects for replies begin with; one for each role, so that no role can read the replies to another."`
	NATSCA    string `name:"nats-ca" env:"PAWL_NATS_CA" type:"path" placeholder:"FILE" help:"PEM file of the authority that signed the server's certificate."`
	NATSCert  string `name:"nats-cert" env:"PAWL_NATS_CERT" type:"path" placeholder:"FILE" help:"PEM file of our own certificate."`
	NATSKey   string `name:"nats-key" env:"PAWL_NATS_KEY" type:"path" placeholder:"FILE" help:"PEM file of its key."`
}

// Redis says where Redis is and how to get in.
type Redis struct {
	RedisURL  URL    `name:"redis" env:"PAWL_REDIS" default:"${redis}" help:"Redis: redis://, rediss:// or unix://; a cluster as redis+cluster://h1:p1,h2:p2; sentinels as redis+sentinel://h1:p1,h2:p2?master_name=NAME. Client options as query parameters."`
	RedisUser string `name:"redis-user" env:"PAWL_REDIS_USER" placeholder:"NAME" help:"User, of the password file."`
	RedisPass string `name:"redis-password-file" env:"PAWL_REDIS_PASSWORD_FILE" type:"path" placeholder:"FILE" help:"File with the password. Read at every connect."`
	RedisCA   string `name:"redis-ca" env:"PAWL_REDIS_CA" type:"path" placeholder:"FILE" help:"PEM file of the authority that signed the server's certificate."`
	RedisCert string `name:"redis-cert" env:"PAWL_REDIS_CERT" type:"path" placeholder:"FILE" help:"PEM file of our own certificate."`
	RedisKey  string `name:"redis-key" env:"PAWL_REDIS_KEY" type:"path" placeholder:"FILE" help:"PEM file of its key."`
}

// Log says what is logged, to standard error.
type Log struct {
	LogLevel  string `name:"log-level" env:"PAWL_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"Least level to log: ${enum}."`
	LogFormat string `name:"log-format" env:"PAWL_LOG_FORMAT" default:"text" enum:"text,json" help:"Form of a log line: ${enum}."`
}

// Namespace says which of the deployments that share the servers is meant.
type Namespace struct {
	Namespace string `name:"namespace" env:"PAWL_NAMESPACE" default:"default" help:"Deployments with different namespaces share servers without meeting."`
}

// Fleet is what every process of a fleet takes.
type Fleet struct {
	Namespace
	NATS
	Redis
	Log

	Replies []string `name:"reply-prefixes" env:"PAWL_REPLY_PREFIXES" default:"_INBOX" placeholder:"PREFIX" help:"Replies are sent only to subjects that begin with one of these, separated by commas."`

	HTTPAccess

	Drain    time.Duration `name:"drain" env:"PAWL_DRAIN" default:"30s" help:"How long work under way may take to end after a signal to stop."`
	HTTP     string        `name:"http" env:"PAWL_HTTP" placeholder:"ADDR" help:"Serve the console, /api/v1, /healthz, /readyz and /metrics there, such as 127.0.0.1:7295; without a host it is 127.0.0.1, and 0.0.0.0 is all interfaces. Off without it."`
	Examples bool          `name:"examples" env:"PAWL_EXAMPLES" help:"Register Pawl's examples."`
}

// HTTPAccess is who may use the HTTP API and the console, and what events from outside do.
type HTTPAccess struct {
	Tokens       string `name:"http-tokens" env:"PAWL_HTTP_TOKENS" type:"existingfile" placeholder:"FILE" help:"File of the users of the API: on each line a token, a role (viewer, operator or admin) and a name. An address that is not a loopback address requires it, or an issuer."`
	OIDCIssuer   string `name:"oidc-issuer" env:"PAWL_OIDC_ISSUER" placeholder:"URL" help:"OpenID Connect issuer whose tokens are accepted."`
	OIDCAudience string `name:"oidc-audience" env:"PAWL_OIDC_AUDIENCE" default:"pawl" help:"Audience that such a token must have."`
	OIDCRoles    string `name:"oidc-roles" env:"PAWL_OIDC_ROLES" default:"roles" placeholder:"CLAIM" help:"Claim that has its roles, such as realm_access.roles."`
	Triggers     string `name:"triggers" env:"PAWL_TRIGGERS" type:"existingfile" placeholder:"FILE" help:"File that decides what CloudEvents and webhooks do; see docs/http-api.md."`
}

// Orchestrator is what an orchestrator takes besides.
type Orchestrator struct {
	Partitions int           `name:"partitions" env:"PAWL_PARTITIONS" default:"64" help:"Partitions of a new namespace, at most 1024. Fixed from then on."`
	Replicas   int           `name:"replicas" env:"PAWL_REPLICAS" default:"1" help:"Replicas of new NATS streams."`
	InputsMax  Size          `name:"inputs-max-bytes" env:"PAWL_INPUTS_MAX_BYTES" default:"1GiB" placeholder:"SIZE" help:"Size at which the stream of inputs is full and refuses messages, such as 512MiB. NATS reserves it. Changed at the next start."`
	MaxDepth   uint64        `name:"max-child-depth" env:"PAWL_MAX_CHILD_DEPTH" default:"100" help:"How many levels of children an instance may have below it. A call beyond fails with pawl.ErrTooDeep."`
	Look       time.Duration `name:"look" env:"PAWL_LOOK" default:"10s" help:"Longest time until an instance with work outstanding is looked at again."`

	Retention    Retention `name:"retention" env:"PAWL_RETENTION" default:"72h" help:"How long instances that have ended are kept: such as 72h, forever, or by status: completed=24h,failed=720h,cancelled=forever."`
	FailDiverged bool      `name:"fail-diverged" env:"PAWL_FAIL_DIVERGED" help:"Fail an instance whose code no longer does what its history says. Without it the instance waits, listed as stuck, for code that fits."`
}

// Worker is what a worker takes besides.
type Worker struct {
	LeaseTTL    time.Duration `name:"lease-ttl" env:"PAWL_LEASE_TTL" default:"10s" help:"How long an activity stays with a worker that is silent."`
	Concurrency int           `name:"concurrency" env:"PAWL_CONCURRENCY" default:"64" help:"Activities of one task queue run at the same time."`

	Grace        time.Duration `name:"grace" env:"PAWL_GRACE" default:"10s" help:"How long an activity may clean up after it was cancelled, unless it says otherwise; then its place is free, whatever it does."`
	MaxAbandoned int           `name:"max-abandoned" env:"PAWL_MAX_ABANDONED" default:"100" help:"With more activities than that which run on after their grace, the worker is not ready."`
}

// Data says where the embedded servers keep what they hold.
type Data struct {
	Data string `name:"data" env:"PAWL_DATA" default:"pawl-data" type:"path" help:"Directory of the embedded NATS and Redis."`
}
