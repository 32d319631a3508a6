package api

import "waypost"

// TokenBody is what a client says of the token that it wants.
type TokenBody struct {
	TenantIDs TenantIDs        `json:"tenantIds" jsonschema:"required"`
	From      []waypost.Origin `json:"from" jsonschema:"required,minItems=1,maxItems=2,uniqueItems=true"`
	// The highest level that it can search.
	MaxAccessLevel int `json:"maxAccessLevel" jsonschema:"minimum=0,maximum=10,default=10"`
	// Seconds.
	ExpiresIn int64 `json:"expiresIn" jsonschema:"minimum=60,maximum=2592000,default=3600"`
}

// TenantIDs are the tenants of a token.
type TenantIDs []string

// Schema is what reflection cannot tell of them.
func (TenantIDs) Schema() string {
	return `{type: array, minItems: 1, maxItems: 100, uniqueItems: true, items: {$ref: "#/components/schemas/ArticleKey"}}`
}

// Token is a token as OAuth writes one (RFC 6749, section 5.1).
type Token struct {
	// Not to be looked into.
	AccessToken string `json:"access_token" jsonschema:"minLength=1"`
	TokenType   string `json:"token_type" jsonschema_extras:"const=Bearer"`
	// Seconds.
	ExpiresIn int64 `json:"expires_in" jsonschema:"minimum=60"`
}
