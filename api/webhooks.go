package api

import "waypost"

// WebhookBody is a webhook as a client writes it.
type WebhookBody struct {
	Name string `json:"name" jsonschema:"required,minLength=1,maxLength=128"`
	// https or http; answered as it was written. Blanks and other visible characters that no URL holds are sent
	// percent-encoded, a host in another script in its ASCII form. Templates, braces, backslashes, fragments and what
	// cannot be seen are refused, with the character and its place.
	URL       string         `json:"url" jsonschema:"required,minLength=1,maxLength=2048"`
	BasicAuth *BasicAuthBody `json:"basicAuth,omitempty"`
	// What connections to the receiver trust and show other than by default, in PEM; the URL must be https. null, or
	// no member that is set, ends it.
	TLS *TLSBody `json:"tls,omitempty"`
	// Custom parameters. Strings are Liquid templates over lead, journey, enrollment, touchpoints, now and today.
	Params WrittenParams `json:"params"`
	// The whole exchange, body included.
	TimeoutMs int            `json:"timeoutMs" jsonschema:"minimum=10,maximum=120000,default=15000"`
	Retry     RetryBody      `json:"retry"`
	RateLimit *RateLimitBody `json:"rateLimit,omitempty"`
	// POSTs at a time in each process; 0: 1,000. All webhooks share 4,000 of a process, of which one gets at most as many
	// as it leaves free.
	MaxConcurrency int `json:"maxConcurrency" jsonschema:"minimum=0,maximum=10000,default=0"`
	// What it sends by, such as `sms`, in lower case: consents and suppressions are of a channel.
	Channel string `json:"channel" jsonschema:"minLength=1,maxLength=40"`
	// Only leads whose `consents` say true of the channel get touchpoints; the others are skipped (`consent`). Needs
	// `channel`.
	RequiresConsent bool `json:"requiresConsent" jsonschema:"default=false"`
	Enabled         bool `json:"enabled" jsonschema:"default=true"`
	// `whsec_` and 24 to 64 bytes in base64: adds the headers of Standard Webhooks. Never answered. One that it
	// replaces goes on signing beside it for `signingOverlap`; null or "" ends both at once.
	SigningSecret string `json:"signingSecret" jsonschema:"pattern=^(whsec_[A-Za-z0-9+/]+=*)?$"`
	// How long a signing secret that was replaced goes on signing: 0s, at once it does not, to 720h; 24h if absent.
	SigningOverlap waypost.Duration `json:"signingOverlap"`
}

// WebhookPatchBody has the members of `WebhookBody`; those that are absent stay, null stands for the default.
type WebhookPatchBody WebhookBody

// BasicAuthBody is what requests authenticate with.
type BasicAuthBody struct {
	Username string `json:"username" jsonschema:"required,minLength=1,maxLength=256,pattern=^[^:]*$"`
	// Never answered.
	Password string `json:"password" jsonschema:"required,minLength=1,maxLength=256"`
}

// TLSBody is what connections trust and show.
type TLSBody struct {
	// The only authorities that the receiver's certificate may come from, instead of those that the system knows.
	CACertificate string `json:"caCertificate" jsonschema:"maxLength=65536"`
	// Shown to a receiver that asks for a certificate, intermediate ones behind it. It comes with `clientKey`.
	ClientCertificate string `json:"clientCertificate" jsonschema:"maxLength=65536"`
	// The private key of `clientCertificate`, without a passphrase. Never answered.
	ClientKey string `json:"clientKey" jsonschema:"maxLength=65536"`
}

// RateLimitBody bounds the requests to a webhook.
type RateLimitBody struct {
	PerSecond float64 `json:"perSecond" jsonschema:"required,exclusiveMinimum=0,maximum=100000"`
	// perSecond, rounded up, if absent.
	Burst *int `json:"burst" jsonschema:"minimum=1,maximum=100000"`
}

// RetryBody says when a failed attempt is followed by another one.
type RetryBody waypost.Retry

// WrittenParams are the custom parameters of a webhook as a client writes them.
type WrittenParams map[string]any

// Schema is what reflection cannot tell of them.
func (WrittenParams) Schema() string {
	return `{type: object, maxProperties: 64, additionalProperties: {oneOf: [{type: string, maxLength: 8192}, {type: number}]}}`
}

// Webhook is a webhook as it is answered: without its secrets.
type Webhook struct {
	ID              string             `json:"id" jsonschema:"pattern=^whk_"`
	Name            string             `json:"name"`
	URL             string             `json:"url"`
	BasicAuth       *BasicAuth         `json:"basicAuth"`
	TLS             *TLS               `json:"tls"`
	Params          Params             `json:"params"`
	TimeoutMs       int                `json:"timeoutMs"`
	Retry           waypost.Retry      `json:"retry"`
	RateLimit       *waypost.RateLimit `json:"rateLimit"`
	MaxConcurrency  int                `json:"maxConcurrency"`
	Channel         TextOrNull         `json:"channel" jsonschema:"minLength=1,maxLength=40"`
	RequiresConsent bool               `json:"requiresConsent"`
	Enabled         bool               `json:"enabled"`
	// Why Waypost itself disabled it: `410`.
	DisabledReason   TextOrNull       `json:"disabledReason"`
	SigningSecretSet bool             `json:"signingSecretSet"`
	SigningOverlap   waypost.Duration `json:"signingOverlap"`
	// Until when the signing secret before this one signs, too.
	PreviousSigningSecretUntil TimeOrNull `json:"previousSigningSecretUntil"`
	CreatedAt                  Time       `json:"createdAt"`
	UpdatedAt                  Time       `json:"updatedAt"`
	// Secrets that are set and cannot be read: the server lacks the key that they were encrypted with, or has another one
	// of the same id. The ETag does not depend on it. Nothing is
	// sent to the webhook (`deferredReason: unreadable`) until that key is back or they are set again. In place of
	// `previousSigningSecret`, which ends at `previousSigningSecretUntil`, set another `signingSecret` or `signingOverlap: 0s`.
	UnreadableSecrets []SecretMember `json:"unreadableSecrets,omitzero" jsonschema:"required"`
}

// SecretMember is the path of a member that is a secret.
type SecretMember string

// Schema is what reflection cannot tell of it.
func (SecretMember) Schema() string {
	return `{type: string, enum: [basicAuth.password, tls.clientKey, signingSecret, previousSigningSecret]}`
}

// BasicAuth is what requests authenticate with, without the password.
type BasicAuth struct {
	Username    string `json:"username"`
	PasswordSet bool   `json:"passwordSet"`
}

// TLS is what connections trust and show, without the private key.
type TLS struct {
	CACertificate     TextOrNull `json:"caCertificate"`
	ClientCertificate TextOrNull `json:"clientCertificate"`
	ClientKeySet      bool       `json:"clientKeySet"`
	// Until when the client certificate is valid.
	ClientCertificateNotAfter TimeOrNull `json:"clientCertificateNotAfter"`
}

// Params are the custom parameters of a webhook.
type Params map[string]any

// Schema is what reflection cannot tell of them.
func (Params) Schema() string {
	return `{type: object, additionalProperties: {oneOf: [{type: string}, {type: number}]}}`
}
