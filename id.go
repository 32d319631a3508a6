package waypost

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// Prefixes of the ids that Waypost mints (docs/contract.md, "Values").
const (
	PrefixApplication = "app_"
	PrefixWebhook     = "whk_"
	PrefixJourney     = "jrn_"
	PrefixEnrollment  = "enr_"
	PrefixMessage     = "msg_"
	PrefixCohort      = "coh_"
	PrefixLaunch      = "lch_"
	PrefixImport      = "imp_"
	PrefixRedelivery  = "rdl_"
	PrefixUser        = "usr_"
	PrefixAudit       = "aud_" // of entries, which answers do not show
	// A subscription's messages have its id where those of journeys have the enrollment's.
	PrefixSubscription = "sub_"
	PrefixSuppression  = "sup_"
	// PrefixRedeliveryBatch names the workflows of redeliveries, PrefixCohort those of
	// journeys.
	PrefixRedeliveryBatch = "rdb_"
)

// Crockford's alphabet in lower case: it sorts like the bytes and has no
// letters that people mix up.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID mints an id: the prefix, then 26 characters that hold at's
// milliseconds and 80 random bits. Ids sort by the time they were minted at.
func NewID(prefix string, at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails
	return prefix + idEncoding.EncodeToString(b[:])
}

// FirstID is the lowest id of a prefix that can be minted at a time, to the millisecond.
func FirstID(prefix string, at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	return prefix + idEncoding.EncodeToString(b[:])
}

// IsID tells whether id has the form that NewID gives ids of this prefix.
func IsID(prefix, id string) bool { return !IDTime(prefix, id).IsZero() }

// IDTime is the time, in milliseconds, that an id of NewID was minted at; zero for
// anything else.
func IDTime(prefix, id string) time.Time {
	rest, ok := strings.CutPrefix(id, prefix)
	b, err := idEncoding.DecodeString(rest)
	// The decoder skips line feeds and ignores surplus bits.
	if !ok || err != nil || len(b) != 16 || idEncoding.EncodeToString(b) != rest {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)).UTC()
}
