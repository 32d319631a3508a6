package waypost

import (
	"encoding/json"
	"time"
)

// SecondFactor is what a person shows beside the password or the link when they sign in to the
// console: an app that makes codes (TOTP, RFC 6238), or passkeys.
type SecondFactor struct {
	// TOTP says that there is an app. Its secret, in base32, and the last step of 30 seconds
	// of which a code was taken are known to Store.ChangeSecondFactor alone.
	TOTP       bool
	TOTPSecret string
	TOTPStep   int64
	Passkeys   []Passkey
	// RecoveryCodes are hashes of those that were not used.
	RecoveryCodes []string
}

// Any tells whether there is a second factor.
func (f SecondFactor) Any() bool { return f.TOTP || len(f.Passkeys) > 0 }

// Kinds lists SecondFactorApp if there is an app, and SecondFactorPasskey if there are passkeys; never nil.
func (f SecondFactor) Kinds() []string {
	kinds := []string{}
	if f.TOTP {
		kinds = append(kinds, SecondFactorApp)
	}
	if len(f.Passkeys) > 0 {
		kinds = append(kinds, SecondFactorPasskey)
	}
	return kinds
}

// Second factors of sign-ins, as the audit log tells them.
const (
	SecondFactorApp          = "app"
	SecondFactorPasskey      = "passkey"
	SecondFactorRecoveryCode = "recoveryCode"
	SecondFactorNew          = "new" // one that was set up at the sign-in
)

// SecondFactors lists them.
var SecondFactors = []string{SecondFactorApp, SecondFactorPasskey, SecondFactorRecoveryCode, SecondFactorNew}

// Passkey is a key of WebAuthn that a device or a password manager of the person has.
type Passkey struct {
	ID         string          `json:"id"`   // of the credential, in base64url
	Name       string          `json:"name"` // what the person calls it
	Credential json.RawMessage `json:"credential"`
	CreatedAt  time.Time       `json:"createdAt"`
	UsedAt     time.Time       `json:"usedAt,omitzero"`
}
