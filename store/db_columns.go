package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"waypost"
)

// stamp is a time column: microseconds since 1970 in UTC, NULL for the zero time.
type stamp struct{ time.Time }

// Value implements driver.Valuer.
func (t stamp) Value() (driver.Value, error) {
	if t.IsZero() {
		return nil, nil
	}
	return t.UnixMicro(), nil
}

// Scan implements sql.Scanner.
func (t *stamp) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		t.Time = time.Time{}
	case int64:
		t.Time = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("a time column holds %T", src)
	}
	return nil
}

// pointer returns nil for the zero time.
func (t stamp) pointer() *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t.Time
}

// toJSON encodes what is known to be encodable: values that came from JSON.
func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode a %T: %w", v, err)
	}
	return string(b), nil
}

// fromJSON decodes a column that toJSON wrote; an empty one leaves v as it is.
func fromJSON(column string, v any) error {
	if column == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(column), v); err != nil {
		return fmt.Errorf("decode a %T: %w", v, err)
	}
	return nil
}

// seal encrypts a secret column; an empty secret is NULL.
func (s *db) seal(secret, purpose string) []byte {
	if secret == "" {
		return nil
	}
	return s.keys.Seal([]byte(secret), purpose)
}

// unseal reverses seal.
func (s *db) unseal(column []byte, purpose string) (string, error) {
	if column == nil {
		return "", nil
	}
	plain, err := s.keys.Open(column, purpose)
	return string(plain), err
}

// checkText notes a text that the databases cannot hold.
func checkText(p *waypost.Problems, target, text string) {
	if strings.ContainsRune(text, 0) {
		p.Add(waypost.DetailInvalidFormat, target, "must not hold a NUL character")
	}
}

// cleanText makes text of the outside world (a receiver's answer) storable.
func cleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
