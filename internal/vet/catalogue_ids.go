package vet

// identifiers lists packages that generate ids. Most of them use a reader or a clock in a variable, which an analysis of their code would
// not find.
func identifiers() []entry {
	h := hazard{kind: kindRandom, reason: "returns another id at every replay", instead: "use pawl.NewID(ctx), or pawl.SideEffect for an id of this kind"}
	return []entry{
		{"github.com/google/uuid", "New NewString NewRandom NewUUID NewV6 NewV7 NewDCE*", h},
		{"github.com/gofrs/uuid", "NewV3 NewV5 *.NewV3 *.NewV5", hazard{kind: free}}, // computed from their arguments
		{"github.com/gofrs/uuid", "NewV* NewGen* *.NewV*", h},
		{"github.com/satori/go.uuid", "NewV1 NewV2 NewV4", h},
		{"github.com/pborman/uuid", "New NewUUID NewRandom NewDCE*", h},
		{"github.com/hashicorp/go-uuid", "Generate*", h},
		{"github.com/lithammer/shortuuid", "New*", h},
		{"github.com/nats-io/nuid", "*", h},
		{"github.com/segmentio/ksuid", "New NewRandom NewRandomWithTime", h},
		{"github.com/rs/xid", "New NewWithTime", h},
		{"github.com/oklog/ulid", "Make Now Timestamp DefaultEntropy", h},
		{"github.com/matoous/go-nanoid", "New Must Generate MustGenerate Nanoid ID GenerateString", h},
		{"github.com/jaevor/go-nanoid", "*", h},
		{"github.com/teris-io/shortid", "Generate MustGenerate Shortid.Generate Shortid.MustGenerate", h},
		{"github.com/lucsky/cuid", "New Slug", h},
		{"github.com/nrednav/cuid2", "Generate Init", h},
		{"github.com/bwmarrin/snowflake", "Node.Generate", h},
		{"github.com/sony/sonyflake", "Sonyflake.NextID", h},
	}
}
