#!/usr/bin/env bash
# Runs all tests. Arguments go to the test runner: scripts/test.sh --release, scripts/test.sh gatv2
#
# The tests of the GPU backend take any Vulkan, Metal or DX12 adapter. On Linux without a Vulkan driver this installs Mesa's software
# driver (lavapipe), through apt-get where there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Whether the Vulkan loader would find the description of a driver.
has_vulkan_driver() {
    local named=${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}} file
    local -a files
    if [[ -n $named ]]; then
        IFS=: read -ra files <<<"$named"
    else
        files=(/usr/share/vulkan/icd.d/*.json /usr/local/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json)
    fi
    for file in "${files[@]}"; do
        if [[ -e $file ]]; then return 0; fi
    done
    if [[ -n $named ]]; then
        echo "scripts/test.sh: VK_DRIVER_FILES names no file that exists ($named): correct or unset it" >&2
        exit 1
    fi
    return 1
}

# NVIDIA's driver comes without the loader. One in LD_LIBRARY_PATH is the user's own affair.
has_vulkan_loader() {
    local pattern
    if [[ -n ${LD_LIBRARY_PATH:-} ]]; then return 0; fi
    for pattern in /usr/lib /usr/lib64 '/usr/lib/*' /usr/local/lib; do
        if compgen -G "$pattern/libvulkan.so.1" >/dev/null; then return 0; fi
    done
    return 1
}

install_packages() {
    local -a as_root=()
    if [[ $(id -u) != 0 ]]; then as_root=(sudo); fi
    if ! command -v apt-get >/dev/null || { [[ ${#as_root[@]} -gt 0 ]] && ! command -v sudo >/dev/null; }; then
        echo "scripts/test.sh: no Vulkan driver or loader. Install them and run this again: on Debian and Ubuntu \`apt-get install $*\` as root," \
            "on Fedora \`dnf install mesa-vulkan-drivers vulkan-loader\`, on Arch \`pacman -S vulkan-swrast vulkan-icd-loader\`." >&2
        exit 1
    fi
    echo "scripts/test.sh: installing $*, which the tests of the GPU backend need"
    ${as_root[@]+"${as_root[@]}"} apt-get update -qq
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

if [[ $(uname -s) == Linux ]]; then
    packages=()
    has_vulkan_driver || packages+=(mesa-vulkan-drivers)
    has_vulkan_loader || packages+=(libvulkan1)
    if [[ ${#packages[@]} -gt 0 ]]; then install_packages "${packages[@]}"; fi
fi

if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace "$@"
    # nextest leaves out the examples in the documentation.
    cargo test --doc --workspace
else
    cargo test --workspace "$@"
fi
